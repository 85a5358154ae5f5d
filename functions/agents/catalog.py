"""Makes the Agent of each remote service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import aiohttp

from functions.agents.breaker import Breaker
from functions.agents.credentials import TokenIssuer, credential_of
from functions.agents.endpoints import Endpoint
from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.ports import Agent, Ports
from functions.pattern.retry import Retry
from functions.telemetry.instruments import observe_breakers

AgentMaker = Callable[[RemoteService], Agent]


def make_breakers(
    endpoints: Mapping[str, Endpoint],
    ports: Ports,
    policy: BreakerPolicy,
    *,
    skew: timedelta,
    calls: bool = True,
) -> dict[str, Breaker]:
    """Make the circuit breaker of each endpoint, which limits the calls, too. Who `calls` measures it."""
    breakers = {
        name: Breaker(name, ports, policy, at_once=endpoint.at_once, skew=skew)
        for name, endpoint in endpoints.items()
    }
    if calls:
        observe_breakers(lambda: {name: breaker.state for name, breaker in breakers.items()})
    return breakers


def make_agents(
    endpoints: Mapping[str, Endpoint],
    makers: Mapping[str, AgentMaker],
    ports: Ports,
    breakers: Mapping[str, Breaker],
    *,
    session: Callable[[], aiohttp.ClientSession],
    once_session: Callable[[], aiohttp.ClientSession],
    issuer: TokenIssuer,
    retry: Retry | None = None,
) -> dict[str, Agent]:
    """Make the Agent of each endpoint, a REST Agent unless `makers` names it."""
    return {
        name: makers.get(name, RestAgent)(
            RemoteService(
                name,
                endpoint.address,
                ports,
                credential=credential_of(endpoint, issuer, ports.clock),
                session=session,
                once_session=once_session,
                breaker=breakers[name],
                retry=retry,
            )
        )
        for name, endpoint in endpoints.items()
    }
