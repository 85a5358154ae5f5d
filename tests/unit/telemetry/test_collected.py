"""What happens is written down once a minute, by no task, and what can't be written waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import pytest

from functions.pattern.occurrences import Occurrences, TaskEnd
from functions.pattern.states import ProcessState
from functions.pattern.trends import Happening, TrendKey
from functions.telemetry.changes import CountedChanges
from functions.telemetry.collected import CollectedTrends
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.clock import START, FakeClock
from tests.fakes.tasks import pending
from tests.fakes.trends import NO_STORE, MemoryTrends
from tests.fakes.workflows import LINE

_MINUTE = START.replace(second=0, microsecond=0)


class Bench:
    """A process that collects; the clock goes on while it sleeps, for as long as the test lets it."""

    def __init__(self) -> None:
        self.clock, self.rows, self.ids = FakeClock(), MemoryTrends(), 0
        self.naps: list[float] = []
        self.nights = asyncio.Semaphore(0)
        self.trends = CollectedTrends(
            self.rows,
            clock=self.clock,
            new_id=self._new_id,
            sleep=self._sleep,
            random=Random(1),  # noqa: S311 - for a test
        )

    def _new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032}"

    async def _sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        await self.nights.acquire()
        self.clock.advance(seconds)

    def accept(self, workflow: str = "line", times: int = 1) -> None:
        """Let tasks be accepted."""
        for _ in range(times):
            self.trends.collect(Occurrences(workflow, accepted=True))

    async def pass_minutes(self, minutes: int = 1) -> None:
        """Let so many minutes end, and what is written then be written."""
        for _ in range(minutes):
            naps = len(self.naps)
            self.nights.release()
            for _ in range(20):
                await asyncio.sleep(0)
            if len(self.naps) == naps:
                return

    @property
    def accepted(self) -> dict[TrendKey, int]:
        """Give what was written."""
        return {key: trend.counts[Happening.ACCEPTED] for key, trend in self.rows.rows.items()}


@pytest.fixture
def bench() -> Bench:
    """Make a process in which nothing has happened."""
    return Bench()


async def test_many_changes_are_one_row_when_the_minute_is_over(bench: Bench) -> None:
    """For each workflow; nobody waits for it, and nothing is written before."""
    bench.accept(times=500)
    bench.accept("trip", times=2)
    await bench.pass_minutes(0)
    assert bench.accepted == {}
    await bench.pass_minutes()
    assert {(key.workflow, key.at): count for key, count in bench.accepted.items()} == {
        ("line", _MINUTE): 500,
        ("trip", _MINUTE): 2,
    }
    [nap] = bench.naps
    assert 59 < nap < 70


async def test_process_without_changes_writes_nothing(bench: Bench) -> None:
    """And a change that comes to nothing that is counted starts nothing."""
    bench.trends.collect(Occurrences("line"))
    await bench.trends.settle()
    assert bench.naps == []
    bench.accept()
    await bench.pass_minutes(5)
    assert (len(bench.naps), len(bench.rows.rows)) == (1, 1)


async def test_minute_that_runs_is_left_for_its_end(bench: Bench) -> None:
    """What happens while the last one waits for its turn is another row's."""
    bench.accept()
    await asyncio.sleep(0)
    bench.clock.advance(60)
    bench.accept(times=3)
    bench.clock.advance(-60)
    await bench.pass_minutes()
    assert [*bench.accepted.values()] == [1]
    await bench.pass_minutes()
    assert {key.at: count for key, count in bench.accepted.items()} == {
        _MINUTE: 1,
        _MINUTE + timedelta(minutes=1): 3,
    }


async def test_store_that_fails_gets_it_later(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Under the same name, so that an answer that was lost does not count twice."""
    bench.accept()
    bench.rows.failure = NO_STORE
    await bench.pass_minutes(2)
    assert bench.accepted == {}
    assert "trend of line: not written yet" in caplog.text
    bench.rows.failure = None
    await bench.pass_minutes()
    assert [(key.id, key.at) for key in bench.accepted] == [("0" * 31 + "1", _MINUTE)]


async def test_what_waits_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long outage, the latest are written."""
    monkeypatch.setattr("functions.telemetry.collected._MOST_UNWRITTEN", 2)
    bench.rows.failure = NO_STORE
    for _ in range(4):
        bench.accept()
        await bench.pass_minutes()
    bench.rows.failure = None
    await bench.pass_minutes()
    assert [key.at for key in bench.accepted] == [_MINUTE + timedelta(minutes=number) for number in (2, 3)]


async def test_defect_costs_one_row(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and not tried for ever."""
    bench.rows.failure = ValueError("a defect")
    bench.accept()
    await bench.pass_minutes()
    bench.rows.failure = None
    bench.accept()
    await bench.pass_minutes()
    assert [*bench.accepted.values()] == [1]
    assert "trend of line: not written" in caplog.text


async def test_changes_are_collected_where_they_are_counted(bench: Bench) -> None:
    """Each recorded change passes there once."""
    changes = CountedChanges(RecordingAnnouncer(), bench.trends)
    await changes.announce(None, pending(LINE))
    bench.trends.collect(Occurrences("line", end=TaskEnd(ProcessState.ERROR, 2)))
    await bench.pass_minutes()
    [trend] = bench.rows.rows.values()
    assert trend.counts == {Happening.ACCEPTED: 1, Happening.ERROR: 1}
