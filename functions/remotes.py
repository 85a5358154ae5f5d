"""The remote services: their addresses, and the Agents and circuit breakers before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from random import SystemRandom

from pydantic import SecretStr

from functions.adapters import Adapters, http_session
from functions.agent_keys import load_agent_keys
from functions.agents.breaker import Breaker
from functions.agents.catalog import AGENTS
from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Workflow
from functions.pattern.ports import Agent
from functions.settings import Settings, load_agent_urls
from functions.telemetry.instruments import observe_breakers


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote service: its address, the Agent that wraps it, and the key that it asks for, if any."""

    address: str
    agent: Callable[[RemoteService], Agent]
    key: SecretStr | None = None


def remotes_of(settings: Settings, workflows: tuple[Workflow, ...]) -> dict[str, Remote]:
    """Find the remote service behind each Agent, but of those that are served elsewhere.

    An Agent whose name is not in the catalog is the REST Agent. Raises `SettingsError`.
    """
    agents = {step.agent for workflow in workflows for step in workflow.steps} - settings.agents_elsewhere
    urls, keys = load_agent_urls(agents), load_agent_keys(agents)
    return {name: Remote(url, AGENTS.get(name, RestAgent), keys[name]) for name, url in urls.items()}


def make_agents(remotes: Mapping[str, Remote], settings: Settings, adapters: Adapters) -> dict[str, Agent]:
    """Make the Agent of each remote service, by the Agents' names; its breaker is measured."""
    breakers = {name: _breaker(name, settings, adapters) for name in remotes}
    observe_breakers(breakers.values())
    return {
        name: remote.agent(
            RemoteService(
                name,
                remote.address,
                key=remote.key,
                session=http_session,
                breaker=breakers[name],
                clock=adapters.clock,
                random=SystemRandom(),
            )
        )
        for name, remote in remotes.items()
    }


def _breaker(service: str, settings: Settings, adapters: Adapters) -> Breaker:
    policy = BreakerPolicy(
        failures=settings.breaker_failures,
        open_for=timedelta(seconds=settings.breaker_open_seconds),
    )
    return Breaker(service, rows=adapters.breaker_rows, policy=policy, clock=adapters.clock)
