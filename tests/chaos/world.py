"""Everything that a run needs: the real platform, the way to its tables, and the remote services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from local.platform import ANY_PORTS, Addresses, Platform, PlatformOptions
from local.platform.blueprint import Stages, whole_platform
from tests.chaos.limits import Limits
from tests.chaos.plan import Plan
from tests.chaos.proxy import Proxy
from tests.chaos.remotes import Remotes
from tests.chaos.tally import Tally

#: Seconds by which the slow way to the tables delays each piece of data.
_SLOWNESS = 0.3


class World:
    """The parts of one run, on free ports, with all state below `data`."""

    def __init__(self, plan: Plan, limits: Limits, data: Path) -> None:
        self.tally = Tally()
        self.remotes = Remotes(plan, self.tally)
        self.proxy = Proxy(slowness=_SLOWNESS)
        options = PlatformOptions(ports=ANY_PORTS, data=data, settings=limits.settings)
        self.platform = Platform(options, self._blueprint)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything until the block ends. Raises `PlatformError`."""
        async with self.remotes.serving(), self.proxy.serving(), self.platform:
            yield

    def _blueprint(self, options: PlatformOptions, addresses: Addresses) -> Stages:
        """Make the whole platform, whose host reaches the tables through the proxy."""
        self.proxy.forward_to(addresses.ports.table)
        seen_by_host = Addresses(replace(addresses.ports, table=self.proxy.port))
        settings = {
            **options.settings,
            **self.remotes.settings,
            "StateStore": seen_by_host.storage_connection,
        }
        return whole_platform(replace(options, settings=settings), addresses)
