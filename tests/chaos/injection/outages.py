"""Faults of the platform's parts and of the connections to the tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from local.platform import PartName, Platform
from tests.chaos.injection.proxy import Proxy, ProxyMode
from tests.chaos.plan.faults import InjectedFault, Injection

_KILLED = {InjectedFault.HOST_KILLED: PartName.HOST, InjectedFault.BROKER_KILLED: PartName.BROKER}
_RESTARTED = {
    InjectedFault.HOST_RESTARTED: PartName.HOST,
    InjectedFault.AZURITE_RESTARTED: PartName.AZURITE,
}
_PAUSED = {
    InjectedFault.HOST_PAUSED: PartName.HOST,
    InjectedFault.BROKER_PAUSED: PartName.BROKER,
    InjectedFault.AZURITE_PAUSED: PartName.AZURITE,
}
_MODES = {
    InjectedFault.TABLES_CUT: ProxyMode.CUTTING,
    InjectedFault.TABLES_HELD: ProxyMode.HOLDING,
    InjectedFault.TABLES_SLOW: ProxyMode.SLOWING,
    InjectedFault.TABLE_ANSWERS_LOST: ProxyMode.DROPPING_ANSWERS,
}


@dataclass(frozen=True, slots=True)
class Interval:
    """A time span, in UTC."""

    start: datetime
    end: datetime


class Outages:
    """Injects outages one at a time: a part that starts needs the others."""

    def __init__(self, platform: Platform, proxy: Proxy) -> None:
        self._platform = platform
        self._proxy = proxy
        self._host_pauses: list[Interval] = []

    @property
    def host_pauses(self) -> Sequence[Interval]:
        """When the host was frozen: what it began just before may continue just after."""
        return self._host_pauses

    async def inject(self, injection: Injection) -> int:
        """Inject the fault, end it, and return how often it affected something."""
        fault = injection.fault
        if fault in _KILLED:
            part = _KILLED[fault]
            await self._platform.kill(part)
            await asyncio.sleep(injection.lasts / 2)
            await self._platform.start(part)
            return 1
        if fault in _RESTARTED:
            await self._platform.restart(_RESTARTED[fault])
            return 1
        if fault in _PAUSED:
            async with self._paused(_PAUSED[fault]):
                await asyncio.sleep(injection.lasts)
            return 1
        async with self._proxy.mode(_MODES[fault]):
            await asyncio.sleep(injection.lasts)
        return self._proxy.affected

    @asynccontextmanager
    async def _paused(self, part: PartName) -> AsyncIterator[None]:
        start = datetime.now(UTC)
        self._platform.pause(part)
        try:
            yield
        finally:
            self._platform.resume(part)
            if part is PartName.HOST:
                self._host_pauses.append(Interval(start, datetime.now(UTC)))
