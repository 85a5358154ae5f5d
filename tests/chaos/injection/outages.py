"""Faults of the platform's parts and of the connections to the tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle

from local.platform import PartName, Platform
from tests.chaos.app.deployment import Deployed
from tests.chaos.hosts.host import ChaosHost
from tests.chaos.injection.proxy import ProxyMode
from tests.chaos.plan.faults import InjectedFault, Injection

_PAUSED = {InjectedFault.BROKER_PAUSED: PartName.BROKER, InjectedFault.AZURITE_PAUSED: PartName.AZURITE}
_MODES = {
    InjectedFault.TABLES_CUT: ProxyMode.CUTTING,
    InjectedFault.TABLES_HELD: ProxyMode.HOLDING,
    InjectedFault.TABLES_SLOW: ProxyMode.SLOWING,
    InjectedFault.TABLE_ANSWERS_LOST: ProxyMode.DROPPING_ANSWERS,
}


class Outages:
    """Injects outages one at a time: a part that starts needs the others.

    Those of the host affect one of the hosts, each in its turn.
    """

    def __init__(self, hosts: Sequence[ChaosHost], deployed: Deployed) -> None:
        self._platform = hosts[0].platform
        self._all_hosts = hosts
        self._hosts = cycle(hosts)
        self._deployed = deployed

    async def inject(self, injection: Injection) -> int:
        """Inject the fault, end it, and return how often it affected something."""
        match injection.fault:
            case InjectedFault.ROLLED_OUT:
                return await self._roll_out(injection.lasts)
            case InjectedFault.HOST_KILLED | InjectedFault.HOST_PAUSED | InjectedFault.HOST_RESTARTED:
                hosts = self._all_hosts if injection.everywhere else [next(self._hosts)]
                await asyncio.gather(*(self._disturb(host, injection) for host in hosts))
                return len(hosts)
            case InjectedFault.BROKER_KILLED:
                await self._platform.kill(PartName.BROKER)
                await asyncio.sleep(injection.lasts / 2)
                await self._platform.start(PartName.BROKER)
                return 1
            case _:
                return await self._affect(injection)

    async def _disturb(self, host: ChaosHost, injection: Injection) -> None:
        async with host.free:
            if injection.fault is InjectedFault.HOST_RESTARTED:
                await host.restart()
            elif injection.fault is InjectedFault.HOST_KILLED:
                async with host.killed():
                    await asyncio.sleep(injection.lasts / 2)
            else:
                async with host.paused():
                    await asyncio.sleep(injection.lasts)

    async def _roll_out(self, seconds: float) -> int:
        """Give one host after the other the next version; meanwhile they have different ones."""
        self._deployed = self._deployed.following
        for host in self._all_hosts:
            async with host.free:
                host.deploy(self._deployed)
                await host.restart_all()
            await asyncio.sleep(seconds / len(self._all_hosts))
        return 1

    async def _affect(self, injection: Injection) -> int:
        """Disturb the storage, or the connections to its tables, or the broker."""
        if injection.fault is InjectedFault.AZURITE_RESTARTED:
            await self._platform.restart(PartName.AZURITE)
            return 1
        if injection.fault in _PAUSED:
            part = _PAUSED[injection.fault]
            async with _paused(self._platform, part):
                await asyncio.sleep(injection.lasts)
            return 1
        async with AsyncExitStack() as stack:
            proxies = [host.links.tables for host in self._all_hosts]
            for proxy in proxies:
                await stack.enter_async_context(proxy.mode(_MODES[injection.fault]))
            await asyncio.sleep(injection.lasts)
            return sum(proxy.affected for proxy in proxies)


@asynccontextmanager
async def _paused(platform: Platform, part: PartName) -> AsyncIterator[None]:
    platform.pause(part)
    try:
        yield
    finally:
        platform.resume(part)
