"""The environment of a run: the platform, its hosts with their links, and the remote services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from local.platform import Addresses, Platform, PlatformOptions
from local.platform.blueprint import Stages
from tests.chaos.app.deployment import Deployed
from tests.chaos.hosts.clock import remove_leftovers
from tests.chaos.hosts.host import ChaosHost, host_only
from tests.chaos.hosts.links import HostLinks
from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan
from tests.chaos.remotes.server import Remotes

#: Where the API puts orders, as the setting has it.
type SubmitTo = Literal["queue", "hub"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How many hosts there are, and how orders come.

    With `split`, a host is four processes, one for each role.
    """

    hosts: int = 2
    submit_to: SubmitTo = "queue"
    split: bool = False


class RunEnvironment:
    """The platform, hosts and remote services of one run, on free ports, with all state beside `data`."""

    def __init__(self, plan: Plan, limits: Limits, data: Path, layout: Layout) -> None:
        self.layout = layout
        self.fault_counts = FaultCounts()
        self.remotes = Remotes(plan, self.fault_counts)
        self.deployed = Deployed(version=1, step=limits.step, seed=plan.seed if plan.has_drawn else None)
        self.hosts = [
            ChaosHost(HostLinks(), data.with_name(f"host-{number}") if number else data)
            for number in range(layout.hosts)
        ]
        first, *others = self.hosts
        self.platform = first.make_platform(limits.settings, self._whole, split=layout.split)
        for host in others:
            host.make_platform(limits.settings, self._further(host), split=layout.split)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run everything until the block ends. Raises `PlatformError`."""
        async with AsyncExitStack() as stack:
            stack.callback(remove_leftovers)
            await stack.enter_async_context(self.remotes.serving())
            for host in self.hosts:
                host.deploy(self.deployed)
                await stack.enter_async_context(host.links.serving())
            for platform in self._platforms:
                await stack.enter_async_context(platform)
            yield

    @property
    def tables_connection(self) -> str:
        """The connection to the tables without the proxies."""
        return self.platform.addresses.storage_connection

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

    def _whole(self, options: PlatformOptions, addresses: Addresses) -> Stages:
        """Return the whole platform, with the first host."""
        return self._parts(self.hosts[0], options, addresses, addresses)

    def _further(self, host: ChaosHost) -> Callable[[PlatformOptions, Addresses], Stages]:
        """Return the blueprint of a further host, which uses the first one's platform."""

        def parts(options: PlatformOptions, addresses: Addresses) -> Stages:
            return host_only(self._parts(host, options, addresses, self.platform.addresses))

        return parts

    def _parts(self, host: ChaosHost, options: PlatformOptions, own: Addresses, first: Addresses) -> Stages:
        links = host.links.settings(first, self.remotes.port)
        hub = {"SUBMIT_TO": "hub", "EventHubConnection": links["ServiceBusConnection"]}
        services = self.remotes.settings(host.links.services.port)
        return host.parts(
            options, own, {**links, **services, **(hub if self.layout.submit_to == "hub" else {})}
        )
