"""Makes the Agent of each remote service, with the address and the key that the settings give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from pydantic import SecretStr, ValidationError, create_model

from functions.agents.breaker import Breaker
from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.errors import SettingsError
from functions.pattern.ports import Agent, Ports
from functions.settings import Destination, Environment, first_fault
from functions.telemetry.instruments import observe_breakers

AgentMaker = Callable[[RemoteService], Agent]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a remote service is, and the key that it asks for, if any."""

    address: str
    key: SecretStr | None = None


def url_setting(agent: str) -> str:
    """Name the setting that holds the address of the service behind an Agent, such as `PAYMENT_URL`."""
    return f"{agent.upper().replace('-', '_')}_URL"


def key_setting(agent: str) -> str:
    """Name the setting that holds the key for the service behind an Agent, such as `PAYMENT_KEY`."""
    return f"{agent.upper().replace('-', '_')}_KEY"


def load_endpoints(agents: Iterable[str]) -> dict[str, Endpoint]:
    """Read the address and the key of the service behind each Agent. Raises `SettingsError`."""
    names = sorted(agents)
    fields: dict[str, Any] = {url_setting(name): (Destination, ...) for name in names}
    fields |= {key_setting(name): (SecretStr | None, None) for name in names}
    try:
        read = create_model("Endpoints", __base__=Environment, **fields)()
    except ValidationError as error:
        name, what = first_fault(error)
        raise SettingsError(
            f"setting {name} {what}: set it to the address of the service, such as https://pay.example.com/payments"
        ) from None
    return {
        name: Endpoint(str(getattr(read, url_setting(name))), getattr(read, key_setting(name)))
        for name in names
    }


def make_agents(
    endpoints: Mapping[str, Endpoint],
    makers: Mapping[str, AgentMaker],
    ports: Ports,
    policy: BreakerPolicy,
    *,
    session: Callable[[], aiohttp.ClientSession],
    once_session: Callable[[], aiohttp.ClientSession],
) -> dict[str, Agent]:
    """Make the Agent of each endpoint, a REST Agent unless `makers` names it; its circuit is measured."""
    breakers = {name: Breaker(name, ports, policy) for name in endpoints}
    observe_breakers(lambda: {name: breaker.state for name, breaker in breakers.items()})
    return {
        name: makers.get(name, RestAgent)(
            RemoteService(
                name,
                endpoint.address,
                ports,
                key=endpoint.key,
                session=session,
                once_session=once_session,
                breaker=breakers[name],
            )
        )
        for name, endpoint in endpoints.items()
    }
