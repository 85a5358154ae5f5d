"""The connections of one host: a proxy to each thing that it needs, so that it alone can be cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from local.platform import Addresses
from tests.chaos.injection.proxy import Proxy

#: Seconds by which a proxy delays each piece of data.
_DELAY = 0.3


class LinkTarget(StrEnum):
    """What a host needs."""

    #: The tables of the state store.
    TABLES = "tables"
    #: The broker.
    BUS = "bus"
    #: The remote services and the alerts' webhook.
    SERVICES = "services"


def _proxy() -> Proxy:
    return Proxy(delay=_DELAY)


@dataclass(frozen=True, slots=True)
class HostLinks:
    """The proxies of one host."""

    tables: Proxy = field(default_factory=_proxy)
    bus: Proxy = field(default_factory=_proxy)
    services: Proxy = field(default_factory=_proxy)

    def to(self, target: LinkTarget) -> Proxy:
        """Return the proxy to one thing."""
        match target:
            case LinkTarget.TABLES:
                return self.tables
            case LinkTarget.BUS:
                return self.bus
            case LinkTarget.SERVICES:
                return self.services

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Accept connections until the block ends."""
        async with self.tables.serving(), self.bus.serving(), self.services.serving():
            yield

    def settings(self, platform: Addresses, services: int) -> Mapping[str, str]:
        """Lead to the tables and the broker of a platform, and the services on a port; return the settings.

        Known while the proxies are served.
        """
        self.services.forward_to(services)
        self.bus.forward_to(platform.ports.service_bus)
        self.tables.forward_to(platform.ports.table)
        seen = Addresses(replace(platform.ports, table=self.tables.port, service_bus=self.bus.port))
        return {
            "AzureWebJobsStorage": platform.storage_connection,
            "ServiceBusConnection": seen.service_bus_connection,
            "StateStore": seen.storage_connection,
        }
