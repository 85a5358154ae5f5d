"""The environment of a run: the platform, its hosts, and the remote services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from local.platform import Addresses, Platform, PlatformOptions
from local.platform.blueprint import Stages
from tests.chaos.callers import REPLY_QUEUE
from tests.chaos.hosts import ChaosHost, parts_of
from tests.chaos.plan import Limits, Plan
from tests.chaos.remotes import Remotes


class RunEnvironment:
    """The platform, hosts and remote services of one run, on free ports, with all state below `folder`."""

    def __init__(self, plan: Plan, limits: Limits, folder: Path, hosts: int) -> None:
        self.remotes = Remotes(plan.refused)
        self._limits = limits
        self._folder = folder
        self.hosts = [self._host(number) for number in range(hosts)]
        #: The platform with Azurite, the broker and the first host.
        self.platform = self.hosts[0].platform

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything until the block ends. Raises `PlatformError`."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.remotes.serving())
            for host in self.hosts:
                await stack.enter_async_context(host.serving())
            for platform in self._platforms:
                await stack.enter_async_context(platform)
            yield

    async def unless_a_part_fails[Result](self, work: Awaitable[Result]) -> Result:
        """Return the result of `work`. Raises `PartFailedError` when a part ends first."""
        for platform in self._platforms:
            work = platform.unless_a_part_fails(work)
        return await work

    def kill_all_now(self) -> None:
        """End every part with SIGKILL without waiting."""
        for platform in self._platforms:
            platform.kill_all_now()

    @property
    def _platforms(self) -> list[Platform]:
        return [host.platform for host in self.hosts]

    def _host(self, number: int) -> ChaosHost:
        def parts(options: PlatformOptions, addresses: Addresses) -> Stages:
            whole = self.platform.addresses if number else addresses
            host = self.hosts[number]
            own = {
                **host.connections(whole, self.remotes.port),
                **self.remotes.settings(host.services.port),
            }
            return parts_of(options, addresses, own, alone=number > 0)

        settings = {**self._limits.settings, "REPLY_QUEUES": REPLY_QUEUE, "STATE_SHARDS": "4"}
        return ChaosHost(self._folder / f"host-{number}", settings, parts)
