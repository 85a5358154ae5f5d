"""Policies for the templates: start with `properties.py`. A policy yields a message for each violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from tests.infra.bicep.template import Template
from tests.infra.infrastructure import Environment, Infrastructure

type Policy = Callable[[Infrastructure], Iterator[str]]

#: Every policy of the modules that are imported.
POLICIES: list[Policy] = []


def policy(rule: Policy) -> Policy:
    """Register a rule over all templates."""
    POLICIES.append(rule)
    return rule


def of_environments(rule: Callable[[Environment], Iterator[str]]) -> Policy:
    """Register a rule over each environment."""

    @policy
    @wraps(rule)
    def check(infrastructure: Infrastructure) -> Iterator[str]:
        for environment in infrastructure.environments:
            yield from (f"{environment.name}: {fault}" for fault in rule(environment))

    return check


def of_templates(rule: Callable[[Template], Iterator[str]]) -> Policy:
    """Register a rule over each file."""

    @policy
    @wraps(rule)
    def check(infrastructure: Infrastructure) -> Iterator[str]:
        for template in infrastructure.templates:
            yield from (f"{template.path.name}: {fault}" for fault in rule(template))

    return check
