"""Rows of trends in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from functions.pattern.errors import TransientError
from functions.pattern.identity import StepName
from functions.pattern.states import Direction, Outcome
from functions.pattern.trends import Happening, Period, StepTrend, StoredTrend, Trend, TrendKey

#: Rows that one transaction adds up.
_AT_A_TIME = 3


class MemoryTrends:
    """Keeps rows; fails while there is a `failure`."""

    def __init__(self) -> None:
        self.rows: dict[TrendKey, Trend] = {}
        self.failure: Exception | None = None
        self.reads = 0

    async def insert(self, key: TrendKey, trend: Trend) -> None:
        """Keep a row, unless it is there."""
        self._fail()
        self.rows.setdefault(key, trend)

    async def since(self, at: datetime) -> Sequence[StoredTrend]:
        """Give the rows since a time."""
        self._fail()
        self.reads += 1
        return [StoredTrend(key, trend) for key, trend in self.rows.items() if key.at >= at]

    async def keys(self, most: int) -> Sequence[TrendKey]:
        """Give all keys."""
        self._fail()
        return [*self.rows][:most]

    async def condense(self, into: TrendKey, period: Period) -> bool:
        """Add up a few rows."""
        end = into.at + period.length
        parts = sorted(key for key in self.rows if key.workflow == into.workflow and into.at <= key.at < end)
        total = Trend()
        for key in parts[:_AT_A_TIME]:
            total.add(self.rows.pop(key))
        self.rows[into] = total
        return len(parts) > _AT_A_TIME

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete old rows."""
        self._fail()
        old = [key for key in self.rows if key.at < before][:most]
        for key in old:
            del self.rows[key]
        return len(old)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


NO_STORE = TransientError("Table Storage: ServiceRequestError")


def trend_of(
    *, accepted: int = 0, processed: int = 0, error: int = 0, took: float = 1, **steps: StepTrend
) -> Trend:
    """Make the counts of some tasks, all of which took equally long."""
    counts = {
        Happening.ACCEPTED: accepted,
        Happening.PROCESSED: processed,
        Happening.ERROR: error,
    }
    trend = Trend()
    trend.counts.update({happening: count for happening, count in counts.items() if count})
    for _ in range(processed):
        trend.took.record(took)
    trend.steps = {(StepName(name), Direction.DO): step for name, step in steps.items()}
    return trend


def attempts(completed: int = 0, failed: int = 0, *, took: float = 1) -> StepTrend:
    """Make the attempts at a step, all of which took equally long."""
    step = StepTrend()
    for outcome, count in ((Outcome.COMPLETED, completed), (Outcome.FAILED, failed)):
        for _ in range(count):
            step.outcomes[outcome] += 1
            step.took.record(took)
    return step
