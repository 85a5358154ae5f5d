"""Counts of tasks are written once a minute; rows that the store does not accept are retried."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from random import Random

import pytest

from functions.pattern.definition import Workflow
from functions.pattern.events import Event
from functions.pattern.occurrences import TaskCounter
from functions.pattern.states import Remedy
from functions.telemetry.changes import CountedChanges, MinuteCounter
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.clock import START, FakeClock
from tests.fakes.interventions import overdue_at, recovery
from tests.fakes.minute_counts import NO_STORE, MemoryMinuteCounts
from tests.fakes.tasks import SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TRIP, step, workflow

_MINUTE = START.replace(second=0, microsecond=0)


class Bench:
    """A process that counts; the clock advances while it sleeps, when the test says so."""

    def __init__(self) -> None:
        self.clock, self.rows, self.ids = FakeClock(), MemoryMinuteCounts(), 0
        self.sleeps: list[float] = []
        self._wakes = asyncio.Semaphore(0)
        self.minutes = MinuteCounter(
            self.rows,
            clock=self.clock,
            new_id=self._new_id,
            sleep=self._sleep,
            random=Random(1),  # noqa: S311 - for a test
        )

    def _new_id(self) -> str:
        self.ids += 1
        return f"row-{self.ids}"

    async def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await self._wakes.acquire()
        self.clock.advance(seconds)

    def accept(self, times: int = 1) -> None:
        """Count accepted tasks."""
        for _ in range(times):
            self.minutes.increment(TaskCounter.ACCEPTED)

    async def pass_minutes(self, minutes: int = 1) -> None:
        """End as many minutes, each with its write."""
        for _ in range(minutes):
            self._wakes.release()
            for _ in range(20):
                await asyncio.sleep(0)

    @property
    def accepted(self) -> dict[datetime, int]:
        """Return the written counts by minute."""
        return {minute: counts[TaskCounter.ACCEPTED] for (minute, _), counts in self.rows.rows.items()}


@pytest.fixture
def bench() -> Bench:
    """Make a process without counts."""
    return Bench()


async def test_many_changes_are_one_row_when_the_minute_is_over(bench: Bench) -> None:
    """Nothing is written before, and no caller waits for the write."""
    bench.accept(times=500)
    await bench.pass_minutes(0)
    assert bench.accepted == {}
    await bench.pass_minutes()
    assert bench.accepted == {_MINUTE: 500}
    [slept] = bench.sleeps
    assert 59 < slept < 70


async def test_process_without_changes_writes_nothing(bench: Bench) -> None:
    """It sleeps only while it has counts."""
    await bench.minutes.settle()
    assert bench.sleeps == []
    bench.accept()
    await bench.pass_minutes(5)
    assert (len(bench.sleeps), len(bench.rows.rows)) == (1, 1)


async def test_current_minute_is_written_after_its_end(bench: Bench) -> None:
    """Each minute has its own row."""
    bench.accept()
    await asyncio.sleep(0)
    bench.clock.advance(60)
    bench.accept(times=3)
    bench.clock.advance(-60)
    await bench.pass_minutes()
    assert bench.accepted == {_MINUTE: 1}
    await bench.pass_minutes()
    assert bench.accepted == {_MINUTE: 1, _MINUTE + timedelta(minutes=1): 3}


async def test_clock_that_is_set_back_overwrites_no_row(bench: Bench) -> None:
    """The second row of a minute has another name."""
    bench.accept(times=2)
    await bench.pass_minutes()
    bench.clock.advance(-30)
    bench.accept()
    await bench.pass_minutes()
    assert sorted(counts[TaskCounter.ACCEPTED] for counts in bench.rows.rows.values()) == [1, 2]
    assert {minute for minute, _ in bench.rows.rows} == {_MINUTE}


async def test_row_is_retried_under_its_name(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A write whose answer was lost counts once."""
    bench.accept()
    bench.rows.failure = NO_STORE
    await bench.pass_minutes(2)
    assert bench.accepted == {}
    assert "not written, retrying in a minute" in caplog.text
    bench.rows.failure = None
    await bench.pass_minutes()
    assert [*bench.rows.rows] == [(_MINUTE, "row-1")]


async def test_rows_older_than_an_hour_are_dropped(bench: Bench) -> None:
    """The console would not show them, so memory stays bounded in a long outage."""
    bench.rows.failure = NO_STORE
    for _ in range(63):
        bench.accept()
        await bench.pass_minutes()
    bench.rows.failure = None
    await bench.pass_minutes()
    assert [*bench.accepted] == [_MINUTE + timedelta(minutes=number) for number in range(4, 63)]


async def test_defect_costs_one_row(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the row is not retried."""
    bench.rows.failure = ValueError("a defect")
    bench.accept()
    await bench.pass_minutes()
    bench.rows.failure = None
    bench.accept()
    await bench.pass_minutes()
    assert [*bench.accepted.values()] == [1]
    assert "not written" in caplog.text


async def test_each_event_of_a_task_has_its_counter(bench: Bench) -> None:
    """The same call increments the counter of the console and that of OpenTelemetry."""
    changes = CountedChanges(RecordingAnnouncer(), bench.minutes)
    held = workflow(step("pay"), remedy=Remedy.HOLD)
    courses: tuple[tuple[Workflow, list[Event]], ...] = (
        (LINE, [claimed(), started("pick"), completed("pick"), started("send"), completed("send")]),
        (held, [claimed(), started("pay"), failed("pay")]),
        (
            TRIP,
            [
                *(claimed(), started("flight"), completed("flight"), started("hotel"), failed("hotel")),
                *(claimed(SECOND), started("flight", SECOND), completed("flight", SECOND)),
            ],
        ),
    )
    for definition, events in courses:
        record = pending(definition)
        await changes.announce(None, record)
        for number, event in enumerate(events, 1):
            changed = told(record, event, now=after(number))
            await changes.announce(record, changed)
            record = changed
    record = told(pending(LINE), claimed(), started("pick", complete_by=12))
    await changes.announce(record, told(record, recovery(), now=overdue_at(record)))
    await bench.pass_minutes()
    [counts] = bench.rows.rows.values()
    assert counts == {
        TaskCounter.ACCEPTED: 3,
        TaskCounter.PROCESSED: 1,
        TaskCounter.ERROR: 1,
        TaskCounter.COMPENSATED: 1,
        TaskCounter.RECOVERED: 1,
    }
