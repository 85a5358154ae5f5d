"""A host of a run, and the proxies to its dependencies, by which it alone can be cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from local.platform import ANY_PORTS, ROOT, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Blueprint, Stages, whole_platform
from tests.chaos.injection.proxy import Proxy
from tests.chaos.plan import InjectedFault


class ChaosHost:
    """A host with a proxy to each dependency.

    The first host is a part of the whole platform. Each further host is a platform without them: it uses the
    tables and the broker of the first one, and has a Durable hub of its own.
    """

    def __init__(self, data: Path, settings: Mapping[str, str], blueprint: Blueprint) -> None:
        """Make the host; `settings` are the application settings of all hosts."""
        #: Held while this host is killed, paused or cut off: a host that starts needs its dependencies.
        self.free = asyncio.Lock()
        self.tables, self.bus, self.services = Proxy(), Proxy(), Proxy()
        options = PlatformOptions(ports=ANY_PORTS, data=data, app=ROOT, settings=settings)
        self.platform = Platform(options, blueprint)

    def proxy_of(self, fault: InjectedFault) -> Proxy:
        """Return the proxy in which a partition is injected. Raises `KeyError` for other faults."""
        return {
            InjectedFault.CUT_FROM_TABLES: self.tables,
            InjectedFault.CUT_FROM_BUS: self.bus,
            InjectedFault.CUT_FROM_SERVICES: self.services,
        }[fault]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Accept connections to the proxies until the block ends."""
        async with AsyncExitStack() as stack:
            for proxy in (self.tables, self.bus, self.services):
                await stack.enter_async_context(proxy.serving())
            yield

    def connections(self, platform: Addresses, services: int) -> Mapping[str, str]:
        """Forward the proxies to a platform and to the services' port; return the settings of the host."""
        self.services.forward_to(services)
        self.bus.forward_to(platform.ports.service_bus)
        self.tables.forward_to(platform.ports.table)
        seen = Addresses(replace(platform.ports, table=self.tables.port, service_bus=self.bus.port))
        return {
            "AzureWebJobsStorage": platform.storage_connection,
            "ServiceBusConnection": seen.service_bus_connection,
            "StateStore": seen.storage_connection,
        }

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """End the host with SIGKILL, and start it again after the block."""
        await self.platform.kill(PartName.HOST)
        yield
        await self.platform.start(PartName.HOST)


def parts_of(
    options: PlatformOptions, addresses: Addresses, own: Mapping[str, str], *, alone: bool
) -> Stages:
    """Return the parts of a platform whose host has its `own` settings; with `alone`, only the host."""
    stages = whole_platform(replace(options, settings={**options.settings, **own}), addresses)
    if not alone:
        return stages
    return [[part for stage in stages for part in stage if part.name is PartName.HOST]]
