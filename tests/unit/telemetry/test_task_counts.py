"""Tasks, steps and minutes are counted once for each written change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, cast

import pytest

from functions.core.record import FailurePolicy, StepSpec, StepType, TaskRecord
from functions.core.task_events import Due, EventReceived, OutcomeKind, Resubmitted
from functions.storage.table_contract import TransientStorageError
from functions.telemetry.task_counts import TaskCounter, TaskCounts
from tests.fakes.clock import FakeClock
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import START, StorageProcess, line, virtual_now
from tests.unit.core.builders import end
from tests.unit.telemetry.conftest import Measured, Series, series


async def _no_row(_minute: datetime, _row: str, _counts: Mapping[TaskCounter, int]) -> None:
    """Write no row."""


class Counted(StorageProcess):
    """A state store whose changes of one task are counted; each change is a second after the last."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        super().__init__(IndexedTable(), self.clock.now)
        self.counts = TaskCounts(_no_row, now=self.clock.now, new_id=str)

    def count(self) -> None:
        """Count the changes since the last call."""
        for transition in self.announced:
            self.counts.count(transition.before, transition.after)
        self.announced.clear()

    async def begin(self, *specs: StepSpec, **order: Any) -> TaskRecord:
        """Admit a task and start its first steps."""
        await self.admit("t-1", *specs, **order)
        self.clock.advance(1)
        return await self.start("t-1")

    async def outcome(self, step: str, kind: OutcomeKind = OutcomeKind.DONE) -> TaskRecord:
        """Record an outcome after a second, with the starts that follow."""
        self.clock.advance(1)
        record = await self.storage.load("t-1")
        assert record is not None
        applied = await self.change("t-1", end(record, step, kind), plan=self.plan())
        assert applied.rejection is None
        return applied.record


def _tasks(name: str) -> Series:
    return series(f"tasks.{name}", task_workflow="w")


def _step(outcome: str, direction: str = "do") -> Series:
    return series("step.duration", step_agent="a", step_outcome=outcome, step_direction=direction)


def _names(measured: Mapping[Series, float], start: str) -> Sequence[str]:
    return sorted(name for name, _ in measured if name.startswith(start))


@pytest.fixture
def counted() -> Counted:
    """Return a state store without tasks."""
    return Counted()


async def test_processed_task_is_counted_and_timed(counted: Counted, measured: Measured) -> None:
    """By workflow; the start of a step alone counts nothing."""
    await counted.begin(*line(2))
    counted.count()
    assert measured.take() == {_tasks("submitted"): 1}
    for step in ("s0", "s1"):
        await counted.outcome(step)
    counted.count()
    assert measured.take() == {
        _tasks("processed"): 1,
        _step("done"): 2,
        series("task.duration", task_workflow="w", task_state="Processed"): 3,
    }


async def test_durations_have_bounds_for_seconds(counted: Counted, measured: Measured) -> None:
    """From ten milliseconds to hours; the SDK's own bounds are for milliseconds."""
    await counted.begin(*line(1))
    await counted.outcome("s0")
    counted.count()
    bounds = measured.bounds("step.duration")
    assert (bounds[0], bounds[-1]) == (0.01, 14_400)


async def test_each_entry_into_error_is_counted(counted: Counted, measured: Measured) -> None:
    """A resubmission is no recovery."""
    await counted.begin(*line(1))
    record = await counted.outcome("s0", OutcomeKind.REFUSED)
    counted.count()
    assert (record.error, measured.take()[_tasks("errors")]) == ("s0: it failed", 1)
    await counted.change("t-1", Resubmitted(epoch=1, who="ann", reason="why"), plan=counted.plan())
    await counted.outcome("s0", OutcomeKind.REFUSED)
    counted.count()
    found = measured.take()
    assert (found[_tasks("errors")], found[_step("refused")]) == (1, 1)
    assert _names(found, "tasks.") == ["tasks.errors"]


async def test_compensated_task_is_counted_with_its_undo(counted: Counted, measured: Measured) -> None:
    """A refusal that is undone is no error."""
    await counted.begin(*line(2), on_failure=FailurePolicy.COMPENSATE)
    await counted.outcome("s0")
    await counted.outcome("s1", OutcomeKind.REFUSED)
    await counted.change("t-1", None, plan=counted.plan())
    for step in ("s1", "s0"):
        record = await counted.outcome(step)
    assert record.finished_at is not None
    counted.count()
    found = measured.take()
    assert _names(found, "tasks.") == ["tasks.compensated", "tasks.submitted"]
    assert (found[_step("refused")], found[_step("done", "undo")]) == (1, 2)


async def test_recovery_is_counted_with_the_step_without_outcome(
    counted: Counted, measured: Measured
) -> None:
    """The step lasted until then."""
    await counted.begin(*line(1))
    counted.clock.advance(40)
    await counted.change("t-1", Due(may_recover=True))
    counted.count()
    found = measured.take()
    assert (found[_tasks("recoveries")], found[_step("no outcome")]) == (1, 40)
    assert "tasks.errors" not in _names(found, "tasks.")


async def test_step_that_waits_has_no_duration(counted: Counted, measured: Measured) -> None:
    """It makes no call."""
    await counted.begin(StepSpec(name="s0", type=StepType.EVENT, complete_within=60))
    await counted.change("t-1", EventReceived(step="s0", body="{}", who="ann"))
    counted.count()
    assert not _names(measured.take(), "step.")


async def test_clock_that_is_behind_makes_no_negative_time(counted: Counted, measured: Measured) -> None:
    """The clocks of two instances differ."""
    await counted.begin(*line(1))
    counted.clock.advance(-3600)
    await counted.outcome("s0")
    counted.count()
    found = measured.take()
    assert found[_step("done")] == 0
    assert found[series("task.duration", task_workflow="w", task_state="Processed")] == 0


# Minutes


class Bench:
    """A process that counts; its clock may be `ahead`."""

    def __init__(self) -> None:
        self.ahead, self.ids = timedelta(), count(1)
        self.rows: dict[tuple[datetime, str], Mapping[TaskCounter, int]] = {}
        self.writes, self.failure = 0, cast("Exception | None", None)
        self.counts = TaskCounts(self._write, now=self._now, new_id=lambda: f"row-{next(self.ids)}")

    def _now(self) -> datetime:
        return virtual_now() + self.ahead

    async def _write(self, minute: datetime, row: str, counts: Mapping[TaskCounter, int]) -> None:
        self.writes += 1
        if self.failure is not None:
            raise self.failure
        self.rows[minute, row] = dict(counts)

    async def accept(self, times: int, seconds: float) -> Sequence[tuple[int, int]]:
        """Count accepted tasks, wait, and return the minutes of the written rows with their counts."""
        for _ in range(times):
            self.counts.increment(TaskCounter.ACCEPTED)
        await asyncio.sleep(seconds)
        minutes = ((minute - START) // timedelta(minutes=1) for minute, _ in self.rows)
        return list(zip(minutes, (each[TaskCounter.ACCEPTED] for each in self.rows.values()), strict=True))


@pytest.fixture
def bench() -> Bench:
    """Return a process without counts."""
    return Bench()


async def test_many_changes_are_one_row_when_the_minute_is_over(bench: Bench) -> None:
    """Nothing is written before, and a process without changes writes nothing. Each minute has its row."""
    assert await bench.accept(times=500, seconds=59) == []
    assert await bench.accept(times=0, seconds=300) == [(0, 500)]
    assert await bench.accept(times=1, seconds=1.01) == [(0, 500)]
    assert await bench.accept(times=3, seconds=12) == [(0, 500), (5, 1)]
    assert await bench.accept(times=0, seconds=60) == [(0, 500), (5, 1), (6, 3)]
    assert bench.writes == 3


async def test_clock_that_is_set_back_overwrites_no_row(bench: Bench) -> None:
    """The second row of a minute has another id."""
    assert await bench.accept(times=2, seconds=71) == [(0, 2)]
    bench.ahead -= timedelta(seconds=60)
    assert await bench.accept(times=1, seconds=60) == [(0, 2), (0, 1)]


async def test_row_is_written_again_under_its_id(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A write whose answer was lost counts once."""
    bench.failure = TransientStorageError("no table")
    assert await bench.accept(times=1, seconds=131) == []
    assert "are not written; retry in a minute: no table" in caplog.text
    bench.failure = None
    assert await bench.accept(times=0, seconds=60) == [(0, 1)]
    assert ([*bench.rows], bench.writes) == ([(START, "row-1")], 3)


async def test_rows_older_than_an_hour_are_dropped(bench: Bench) -> None:
    """The console would not show them, so memory is bounded in a long outage."""
    bench.failure = TransientStorageError("no table")
    for _ in range(63):
        await bench.accept(times=1, seconds=60)
    bench.failure = None
    assert await bench.accept(times=0, seconds=70) == [(minute, 1) for minute in range(3, 63)]


async def test_counters_of_the_console_and_of_opentelemetry_are_the_same(
    counted: Counted, bench: Bench
) -> None:
    """Each change increments both."""
    await counted.begin(*line(1))
    await counted.outcome("s0")
    for transition in counted.announced:
        bench.counts.count(transition.before, transition.after)
    before = counted.announced[0].after
    bench.counts.count(before, replace(before))
    await asyncio.sleep(70)
    [counts] = bench.rows.values()
    assert counts == {TaskCounter.ACCEPTED: 1, TaskCounter.PROCESSED: 1}
