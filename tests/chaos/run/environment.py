"""The environment of a run: the real platform, a proxy to its tables, and the remote services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from local.platform import ANY_PORTS, Addresses, Platform, PlatformOptions
from local.platform.blueprint import Stages, whole_platform
from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.injection.proxy import Proxy
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan
from tests.chaos.remotes.server import Remotes

#: Seconds by which the proxy delays each piece of data.
_DELAY = 0.3


class RunEnvironment:
    """The platform, proxy and remote services of one run, on free ports, with all state below `data`."""

    def __init__(self, plan: Plan, limits: Limits, data: Path) -> None:
        self.fault_counts = FaultCounts()
        self.remotes = Remotes(plan, self.fault_counts)
        self.proxy = Proxy(delay=_DELAY)
        options = PlatformOptions(ports=ANY_PORTS, data=data, settings=limits.settings)
        self.platform = Platform(options, self._blueprint)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything until the block ends. Raises `PlatformError`."""
        async with self.remotes.serving(), self.proxy.serving(), self.platform:
            yield

    def _blueprint(self, options: PlatformOptions, addresses: Addresses) -> Stages:
        """Return the whole platform, with the proxy between its host and the tables."""
        self.proxy.forward_to(addresses.ports.table)
        seen_by_host = Addresses(replace(addresses.ports, table=self.proxy.port))
        settings = {
            **options.settings,
            **self.remotes.settings,
            "StateStore": seen_by_host.storage_connection,
        }
        return whole_platform(replace(options, settings=settings), addresses)
