"""Reads trends for the console: one reading of the last day, or month, serves all who ask meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from functions.operations.overview.reader import Remembered
from functions.operations.trends.heat import HeatMap, heat_map
from functions.operations.trends.views import Over, Trends, trends
from functions.pattern.definition import Registry
from functions.pattern.ports import Ports
from functions.pattern.trends import StoredTrend

#: Seconds for which rows are not read again; they are a minute old when they are written.
_DAY_SECONDS = 15
_MONTH_SECONDS = 60


class TrendReader:
    """Reads some hundred rows at most, whatever the number of tasks."""

    def __init__(self, ports: Ports, registry: Registry) -> None:
        self._ports = ports
        self._registry = registry
        self._day = Remembered(self._read_day, seconds=_DAY_SECONDS, clock=ports.clock)
        self._month = Remembered(self._read_month, seconds=_MONTH_SECONDS, clock=ports.clock)

    async def read(self, over: Over, workflow: str | None) -> Trends:
        """Show what happened; point by point of one workflow, or of all. Raises `TransientError`."""
        rows = await (self._month if over is Over.MONTH else self._day).get()
        return trends(rows, over, self._ports.clock.now(), workflow)

    async def heat(self) -> HeatMap:
        """Show which steps are slow or failing. Raises `TransientError`."""
        rows = await self._day.get()
        return heat_map(rows, self._registry.newest, self._ports.clock.now())

    async def _read_day(self) -> Sequence[StoredTrend]:
        return await self._read_over(Over.DAY)

    async def _read_month(self) -> Sequence[StoredTrend]:
        return await self._read_over(Over.MONTH)

    async def _read_over(self, over: Over) -> Sequence[StoredTrend]:
        return await self._ports.trends.since(over.points(self._ports.clock.now())[0])
