"""Faults of the platform's parts and of the way to the tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from local.platform import PartName, Platform
from tests.chaos.faults import Fault, FaultKind
from tests.chaos.proxy import Proxy, Weather

_KILLED = {FaultKind.HOST_KILLED: PartName.HOST, FaultKind.BROKER_KILLED: PartName.BROKER}
_RESTARTED = {FaultKind.HOST_RESTARTED: PartName.HOST, FaultKind.AZURITE_RESTARTED: PartName.AZURITE}
_PAUSED = {
    FaultKind.HOST_PAUSED: PartName.HOST,
    FaultKind.BROKER_PAUSED: PartName.BROKER,
    FaultKind.AZURITE_PAUSED: PartName.AZURITE,
}
_WEATHER = {
    FaultKind.TABLES_CUT: Weather.CUTTING,
    FaultKind.TABLES_HELD: Weather.HOLDING,
    FaultKind.TABLES_SLOW: Weather.SLOW,
    FaultKind.TABLE_ANSWERS_LOST: Weather.SWALLOWING,
}


@dataclass(frozen=True, slots=True)
class Interval:
    """From when to when something was so, in UTC."""

    start: datetime
    end: datetime


class Outages:
    """Brings outages about, one at a time: a part that starts needs the others."""

    def __init__(self, platform: Platform, proxy: Proxy) -> None:
        self._platform = platform
        self._proxy = proxy
        self._host_pauses: list[Interval] = []

    @property
    def host_pauses(self) -> Sequence[Interval]:
        """When the host stood still: what it began just before may go on just after."""
        return self._host_pauses

    async def happen(self, fault: Fault) -> int:
        """Let the fault begin and end, and tell how often it met something."""
        if fault.kind in _KILLED:
            part = _KILLED[fault.kind]
            await self._platform.kill(part)
            await asyncio.sleep(fault.lasts / 2)
            await self._platform.start(part)
            return 1
        if fault.kind in _RESTARTED:
            await self._platform.restart(_RESTARTED[fault.kind])
            return 1
        if fault.kind in _PAUSED:
            async with self._paused(_PAUSED[fault.kind]):
                await asyncio.sleep(fault.lasts)
            return 1
        async with self._proxy.weather(_WEATHER[fault.kind]):
            await asyncio.sleep(fault.lasts)
        return self._proxy.met

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
