"""One host of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Blueprint, Stages, whole_platform
from tests.chaos.app.deployment import Deployed
from tests.chaos.hosts.clock import HostClock
from tests.chaos.hosts.links import HostLinks

_APP = Path(__file__).parents[1] / "app"
#: The only one is the first.
_ROLES = (PartName.HOST, PartName.SCHEDULER, PartName.AGENTS, PartName.SUPERVISOR)


class ChaosHost:
    """A host with links, a clock and a version of its own; it may be several processes, one for each role.

    The first is a part of the whole platform, each further one of a platform that is nothing else: it
    uses the same tables and broker, and has its own Schedulers.
    """

    def __init__(self, links: HostLinks, data: Path) -> None:
        self.links = links
        self.clock = HostClock(data.with_name(f"{data.name}-clock"))
        #: Held by whoever kills, stops or cuts off this host: it can't start while it is cut off.
        self.free = asyncio.Lock()
        self._data = data
        self._deployed = data.with_name(f"{data.name}-deployed.json")
        #: What it has asked Agents behind queues for.
        self.journal = data.with_name(f"{data.name}-asked.jsonl")
        self._platform: Platform | None = None
        self._names: Sequence[PartName] = ()
        self._turns: Iterator[PartName] = iter(())

    @property
    def platform(self) -> Platform:
        """The platform that it is a part of."""
        if self._platform is None:
            raise RuntimeError("no platform has been made")
        return self._platform

    def make_platform(self, settings: Mapping[str, str], blueprint: Blueprint, *, split: bool) -> Platform:
        """Make the platform that has this host, with the `settings` of all hosts; `split` into its roles."""
        ports = ANY_PORTS.split() if split else ANY_PORTS
        self._names = (*_ROLES[1:], *_ROLES[:1]) if split else _ROLES[:1]
        self._turns = cycle(self._names)
        options = PlatformOptions(ports=ports, data=self._data, app=_APP, settings=settings)
        self._platform = Platform(options, blueprint)
        return self._platform

    def parts(self, options: PlatformOptions, addresses: Addresses, own: Mapping[str, str]) -> Stages:
        """Return the whole platform with this host's own settings."""
        files = {"DEPLOYED": str(self._deployed), "JOURNAL": str(self.journal)}
        settings = {**options.settings, **own, **self.clock.environment, **files}
        return whole_platform(replace(options, settings=settings), addresses)

    def deploy(self, deployed: Deployed) -> None:
        """Have it start with this the next time."""
        self._deployed.parent.mkdir(parents=True, exist_ok=True)
        self._deployed.write_text(deployed.model_dump_json(), encoding="utf-8")

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """End it with SIGKILL, and start it again after the block; of several roles one, each in its turn."""
        name = next(self._turns)
        await self.platform.kill(name)
        yield
        await self.platform.start(name)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Freeze it until the block ends; of several roles one, each in its turn."""
        name = next(self._turns)
        self.platform.pause(name)
        try:
            yield
        finally:
            self.platform.resume(name)

    async def restart(self) -> None:
        """Stop it gently, and start it again; of several roles one, each in its turn."""
        await self.platform.restart(next(self._turns))

    async def restart_all(self) -> None:
        """Stop it gently, and start it again, role by role."""
        for name in self._names:
            await self.platform.restart(name)


def host_only(stages: Stages) -> Stages:
    """Return the host of a platform alone, or the hosts of its roles."""
    return [[part for stage in stages for part in stage if part.name in _ROLES]]


def callers_urls(hosts: Sequence[ChaosHost]) -> list[str]:
    """Return the hosts' addresses for callers."""
    return [host.platform.addresses.host for host in hosts]
