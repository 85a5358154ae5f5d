"""The workflows that are served, and the registration of each: versions, Agents and sample services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from functions.agents.http_agent import HttpAgent
from functions.services.service import SampleService
from functions.workflow import DefinitionError, Workflow

#: The folders of all workflows that are served. Add a line for each new workflow.
FOLDERS: Sequence[str] = [
    "orders",
    "deliveries",
]
_PACKAGE = "functions.workflows"


@dataclass(frozen=True, slots=True)
class Registration:
    """A workflow with its own parts, and its `older` versions that are still served.

    `agents` are the classes of its own Agents; every other Agent of its steps is a `RestAgent`. `services`
    are sample services, which are served only with the setting `SAMPLE_SERVICES`. Raises `DefinitionError`
    if `services` or `older` is no tuple.
    """

    workflow: Workflow[Any]
    agents: Mapping[str, type[HttpAgent]] = field(default_factory=dict)
    services: tuple[SampleService, ...] = ()
    older: tuple[Workflow[Any], ...] = ()

    def __post_init__(self) -> None:
        for name in ("services", "older"):
            if not isinstance(getattr(self, name), tuple | list):
                raise self.workflow.error(
                    f"{name} of its registration is no tuple: use {name}=(ONE,), with the comma"
                )

    @property
    def versions(self) -> tuple[Workflow[Any], ...]:
        """Return all versions, first the one for new submissions."""
        return (self.workflow, *self.older)

    @property
    def agent_names(self) -> frozenset[str]:
        """Return the names of the Agents of all versions."""
        specs = (spec for version in self.versions for spec in version.specs)
        return frozenset(spec.agent for spec in specs if spec.agent)


def load_registration(folder: str, package: str = _PACKAGE) -> Registration:
    """Load the workflow in a folder of `package`. Raises `DefinitionError` with the fix."""
    name = f"{package}.{folder}"
    place = name.replace(".", "/")
    if find_spec(name) is None:
        raise DefinitionError(
            f'the registry names "{folder}", but {place}/ does not exist: add it, or remove the line'
        )
    try:
        module = import_module(name)
    except ImportError as error:
        raise DefinitionError(f"{place} cannot be imported: {error}") from None
    registration = getattr(module, "REGISTRATION", None)
    if not isinstance(registration, Registration):
        raise DefinitionError(
            f"{place}/__init__.py has no REGISTRATION: add `REGISTRATION = Registration(WORKFLOW)`"
        )
    return registration


def load_registrations() -> tuple[Registration, ...]:
    """Load every workflow. Raises `DefinitionError` with the folder and the fix."""
    return tuple(map(load_registration, FOLDERS))


def agent_classes(registrations: Iterable[Registration]) -> dict[str, type[HttpAgent]]:
    """Return the classes of all workflows' own Agents. Raises `DefinitionError` for conflicts."""
    every = tuple(registrations)
    known = frozenset[str]().union(*(each.agent_names for each in every))
    for each in every:
        for name in sorted(each.agents.keys() - known):
            raise each.workflow.error(
                f'agents: "{name}" is the Agent of no step: use one of {", ".join(sorted(each.agent_names))}'
            )
    return _merged("the Agent", (each.agents for each in every))


def sample_services(registrations: Iterable[Registration]) -> tuple[SampleService, ...]:
    """Return the sample services of all workflows. Raises `DefinitionError` if two have one name."""
    by_name = ({service.name: service for service in each.services} for each in registrations)
    return tuple(_merged("the sample service", by_name).values())


def _merged[Part](kind: str, parts_of_workflows: Iterable[Mapping[str, Part]]) -> dict[str, Part]:
    merged: dict[str, Part] = {}
    for parts in parts_of_workflows:
        for name, part in parts.items():
            if merged.setdefault(name, part) is not part:
                raise DefinitionError(f'two workflows define {kind} "{name}": rename one of them')
    return merged
