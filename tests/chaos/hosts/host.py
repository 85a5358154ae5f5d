"""One host of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Blueprint, Stages, whole_platform
from tests.chaos.app.deployment import Deployed
from tests.chaos.hosts.clock import HostClock
from tests.chaos.hosts.links import HostLinks

_APP = Path(__file__).parents[1] / "app"


class ChaosHost:
    """A host with links, a clock and a version of its own.

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
        self._platform: Platform | None = None

    @property
    def platform(self) -> Platform:
        """The platform that it is a part of."""
        if self._platform is None:
            raise RuntimeError("no platform has been made")
        return self._platform

    def make_platform(self, settings: Mapping[str, str], blueprint: Blueprint) -> Platform:
        """Make the platform that has this host; its first `settings` are those of all hosts."""
        options = PlatformOptions(ports=ANY_PORTS, data=self._data, app=_APP, settings=settings)
        self._platform = Platform(options, blueprint)
        return self._platform

    def parts(self, options: PlatformOptions, addresses: Addresses, own: Mapping[str, str]) -> Stages:
        """Return the whole platform with this host's own settings."""
        settings = {**options.settings, **own, **self.clock.environment, "DEPLOYED": str(self._deployed)}
        return whole_platform(replace(options, settings=settings), addresses)

    def deploy(self, deployed: Deployed) -> None:
        """Have it start with this the next time."""
        self._deployed.parent.mkdir(parents=True, exist_ok=True)
        self._deployed.write_text(deployed.model_dump_json(), encoding="utf-8")

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self.platform.kill(PartName.HOST)

    async def start(self) -> None:
        """Start it again, and wait until it is ready."""
        await self.platform.start(PartName.HOST)

    async def restart(self) -> None:
        """Stop it gently, and start it again."""
        await self.platform.restart(PartName.HOST)


def host_only(stages: Stages) -> Stages:
    """Return the host of a platform alone."""
    return [[part for stage in stages for part in stage if part.name is PartName.HOST]]


def all_urls(hosts: Sequence[ChaosHost]) -> list[str]:
    """Return the hosts' addresses."""
    return [host.platform.addresses.host for host in hosts]
