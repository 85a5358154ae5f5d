"""Rows of trends are added up, the older the coarser, so that a month is few rows."""

from __future__ import annotations

from datetime import datetime, timedelta

from functions.operations.trends.condensing import condense, to_condense
from functions.pattern.trends import Happening, Period, TrendKey
from tests.fakes.clock import START
from tests.fakes.trends import MemoryTrends, trend_of

_MINUTE = START.replace(second=0, microsecond=0)


def _key(ago: timedelta, name: str, workflow: str = "line") -> TrendKey:
    return TrendKey(workflow, _MINUTE - ago, name)


def _targets(*keys: TrendKey, now: datetime = START) -> list[tuple[datetime, str]]:
    return [(into.at, into.id) for into, _ in to_condense(keys, now)]


def test_rows_of_processes_are_added_up_by_the_minute() -> None:
    """Those of a minute that has been over for ten, in which each process can write its row once more."""
    young, old = timedelta(minutes=10), timedelta(minutes=11)
    assert _targets(_key(young, "a"), _key(young, "b")) == []
    assert _targets(_key(old, "a"), _key(old, "b")) == [(_MINUTE - old, "!minute")]


async def test_row_that_is_written_once_more_counts_once() -> None:
    """Its first answer was lost; housekeeping ran meanwhile."""
    rows, key = MemoryTrends(), _key(timedelta(minutes=1), "a")
    for passed in (0, 1, 12):
        if passed < 12:
            await rows.insert(key, trend_of(accepted=1))
        await condense(rows, START + timedelta(minutes=passed))
    [trend] = rows.rows.values()
    assert trend.counts[Happening.ACCEPTED] == 1


def test_minutes_become_hours_and_hours_days_when_they_are_not_shown_any_more() -> None:
    """By the minute an hour is shown, by the hour a day."""
    assert _targets(_key(timedelta(minutes=60), "!minute")) == []
    assert _targets(_key(timedelta(minutes=61), "!minute")) == [(_MINUTE - timedelta(hours=2), "!hour")]
    assert _targets(_key(timedelta(hours=24), "!hour")) == []
    midnight = _MINUTE - timedelta(hours=10)
    assert _targets(_key(timedelta(hours=40), "!hour")) == [(midnight - timedelta(days=2), "!day")]


def test_what_is_added_up_is_left_alone() -> None:
    """A run without anything new writes nothing; a row that comes late is added."""
    done = TrendKey.of("line", _MINUTE - timedelta(hours=3), Period.HOUR)
    assert _targets(done) == []
    assert _targets(done, _key(timedelta(hours=3), "late")) == [(done.at, "!hour")]


async def test_month_of_many_processes_is_few_rows_with_the_same_counts() -> None:
    """Of each workflow by itself; what is older than shown is deleted."""
    rows = MemoryTrends()
    for hours in range(0, 33 * 24, 5):
        for process in ("a", "b"):
            for workflow in ("line", "trip"):
                key = _key(timedelta(hours=hours, minutes=hours % 7), process, workflow)
                await rows.insert(key, trend_of(accepted=1))
    kept = [key for key in rows.rows if key.at >= START - timedelta(days=32)]
    made = await condense(rows, START)
    assert made > 0
    assert len(rows.rows) < 2 * (33 + 24)
    assert sum(trend.counts[Happening.ACCEPTED] for trend in rows.rows.values()) == len(kept)
    assert await condense(rows, START) == 0
