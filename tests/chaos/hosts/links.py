"""The connections of one host: a proxy to each thing that it needs, so that it alone can be cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from local.platform import Addresses
from tests.chaos.injection.proxy import Proxy

#: Seconds by which a proxy delays each piece of data.
_DELAY = 0.3


class LinkTarget(StrEnum):
    """What a host needs."""

    #: The accounts with the state store's tables.
    TABLES = "tables"
    #: The broker.
    BUS = "bus"
    #: The remote services and the alerts' webhook.
    SERVICES = "services"


def _proxy() -> Proxy:
    return Proxy(delay=_DELAY)


@dataclass(frozen=True, slots=True)
class HostLinks:
    """The proxies of one host, of which those to the tables are in the order of the accounts."""

    tables: Sequence[Proxy]
    bus: Proxy = field(default_factory=_proxy)
    services: Proxy = field(default_factory=_proxy)

    @classmethod
    def to_accounts(cls, accounts: int) -> HostLinks:
        """Make the links of a host whose state store lies in so many accounts."""
        return cls([_proxy() for _ in range(accounts)])

    def to(self, target: LinkTarget) -> Sequence[Proxy]:
        """Return the proxies to one thing."""
        match target:
            case LinkTarget.TABLES:
                return self.tables
            case LinkTarget.BUS:
                return [self.bus]
            case LinkTarget.SERVICES:
                return [self.services]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Accept connections until the block ends."""
        async with AsyncExitStack() as stack:
            for proxy in (*self.tables, self.bus, self.services):
                await stack.enter_async_context(proxy.serving())
            yield

    def settings(self, accounts: Sequence[Addresses], services: int) -> Mapping[str, str]:
        """Lead to the accounts, the broker beside the first, and the services on a port; give the settings.

        Known while the proxies are served.
        """
        self.services.forward_to(services)
        self.bus.forward_to(accounts[0].ports.service_bus)
        seen = []
        for proxy, account in zip(self.tables, accounts, strict=True):
            proxy.forward_to(account.ports.table)
            seen.append(Addresses(replace(account.ports, table=proxy.port)).storage_connection)
        bus = Addresses(replace(accounts[0].ports, service_bus=self.bus.port)).service_bus_connection
        return {
            "AzureWebJobsStorage": accounts[0].storage_connection,
            "ServiceBusConnection": bus,
            **_state_store(seen),
        }


#: Shards that are spread over several accounts.
_SHARDS = "16"


def _state_store(connections: Sequence[str]) -> dict[str, str]:
    if len(connections) == 1:
        return {"StateStore": connections[0]}
    numbered = {f"StateStore__{number}": connection for number, connection in enumerate(connections)}
    return {**numbered, "STATE_SHARDS": _SHARDS}
