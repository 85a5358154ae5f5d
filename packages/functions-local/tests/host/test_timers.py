"""Timers: on a clock that advances only when a timer sleeps or a function takes time, and in a process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from functions_local.app import RetryPolicy, RetryStrategy, TimerTrigger
from functions_local.configuration import StartError
from functions_local.timers import monitor
from functions_local.timers.monitor import ScheduleMonitor, ScheduleStatus
from functions_local.timers.trigger import TimerRunner
from functions_local.worker import Call, FunctionFailed, Outcome
from tests.host.conftest import WITHOUT_BROKER
from tests.host.doubles import NOTHING, FakeWorker, function, invocations
from tests.host.processes import start_host, traces, until

NOON = datetime(2026, 11, 21, 12)  # noqa: DTZ001 - timers count naive UTC
FIVE_MINUTES = "0 */5 * * * *"


@dataclass
class World:
    """A clock, a record on disk, and a host that has one timer function."""

    folder: Path
    now: datetime = NOON
    runs: list[tuple[datetime, dict[str, Any]]] = field(default_factory=list)
    takes: timedelta = timedelta(0)
    answer: Callable[[Call], Outcome] = lambda _call: NOTHING
    retry: RetryPolicy | None = None

    def __post_init__(self) -> None:
        self.monitor = ScheduleMonitor(self.folder)
        self.worker = FakeWorker(self._behave)

    def _behave(self, call: Call) -> Outcome:
        self.runs.append((self.now, json.loads(call.inputs["timer"].value)))
        self.now += self.takes
        return self.answer(call)

    async def run_for(
        self, span: timedelta, schedule: str = FIVE_MINUTES, *, on_startup: bool = False
    ) -> list[str]:
        """Run the host for a while; return the times at which the function started."""
        end, before = self.now + span, len(self.runs)
        over = asyncio.Event()

        async def sleep(seconds: float) -> None:
            if self.now + timedelta(seconds=seconds) > end:
                self.now = end
                over.set()
                await asyncio.Event().wait()
            self.now += timedelta(seconds=seconds)

        trigger = TimerTrigger("timer", schedule, run_on_startup=on_startup, use_monitor=True)
        timer = replace(function(trigger), retry=self.retry)
        runner = TimerRunner(
            timer, trigger, self.monitor, invocations(self.worker), clock=lambda: self.now, sleep=sleep
        )
        task = asyncio.create_task(runner.run())
        await asyncio.wait({task, asyncio.create_task(over.wait())}, return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task.exception()
        task.cancel()
        return [f"{began:%H:%M:%S}" for began, _ in self.runs[before:]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a world at noon."""
    return World(tmp_path)


async def test_timer_fires_at_its_times_and_not_at_first_start(world: World) -> None:
    """Without a record the first run is the next tick."""
    assert await world.run_for(timedelta(minutes=11)) == ["12:05:00", "12:10:00"]


async def test_tick_missed_while_the_host_was_down_runs_at_once_as_past_due(world: World) -> None:
    """Once, however many were missed; then the schedule continues."""
    await world.run_for(timedelta(minutes=6))
    world.now += timedelta(minutes=20)
    assert await world.run_for(timedelta(minutes=6)) == ["12:26:00", "12:30:00"]
    assert [value["IsPastDue"] for _, value in world.runs] == [False, True, False]


async def test_restart_between_two_ticks_runs_nothing(world: World) -> None:
    """The host waits for the next time in the record."""
    await world.run_for(timedelta(minutes=6))
    assert await world.run_for(timedelta(minutes=2)) == []


async def test_edited_schedule_is_not_past_due(world: World) -> None:
    """A record that does not belong to the schedule is ignored."""
    await world.run_for(timedelta(minutes=6))
    world.now += timedelta(minutes=20)
    assert await world.run_for(timedelta(minutes=6), "0 0 * * * *") == []


async def test_crash_during_a_run_repeats_it(world: World) -> None:
    """The record is written after the run: at least once."""
    await world.run_for(timedelta(minutes=6))
    record = world.monitor.load("f")
    await world.run_for(timedelta(minutes=5))
    assert record is not None
    world.monitor.save("f", record)  # as a kill during the second run would have left it
    assert await world.run_for(timedelta(seconds=1)) == ["12:11:00"]


async def test_runs_never_overlap_and_missed_ticks_are_skipped(world: World) -> None:
    """A run of 12 minutes skips two occurrences."""
    world.takes = timedelta(minutes=12)
    assert await world.run_for(timedelta(minutes=25)) == ["12:05:00", "12:20:00"]


async def test_run_on_startup_runs_at_once(world: World) -> None:
    """It is not past due."""
    assert await world.run_for(timedelta(minutes=6), on_startup=True) == ["12:00:00", "12:05:00"]
    assert world.runs[0][1]["IsPastDue"] is False


async def test_schedule_status_is_given_and_kept(world: World) -> None:
    """The function sees Last, Next and LastUpdated; the file has what follows the run."""
    await world.run_for(timedelta(minutes=11))
    assert world.runs[1][1]["ScheduleStatus"] == {
        "Last": "2026-11-21T12:05:00+00:00",
        "Next": "2026-11-21T12:10:00+00:00",
        "LastUpdated": "2026-11-21T12:05:00+00:00",
    }
    at = NOON + timedelta(minutes=10)
    assert world.monitor.load("f") == ScheduleStatus(last=at, next=at + timedelta(minutes=5), updated=at)


async def test_a_timer_of_several_hosts_runs_in_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host runs it after the end of the first."""
    monkeypatch.setattr(monitor, "_TRY_EVERY", 0.01)
    shared = ScheduleMonitor(tmp_path / "new", is_shared=True)

    async def run() -> None:
        async with shared.singleton("timer"):
            pass

    async with asyncio.timeout(60):
        async with shared.singleton("timer"), shared.singleton("another"):
            waiting = asyncio.create_task(run())
            await asyncio.sleep(0.05)
            assert not waiting.done()
        await waiting


async def test_schedule_of_seconds_keeps_no_record(world: World) -> None:
    """More often than once a minute: no file, and the status is null, as in Azure."""
    fired = await world.run_for(timedelta(seconds=31), "*/10 * * * * *")
    assert fired == ["12:00:10", "12:00:20", "12:00:30"]
    assert world.monitor.load("f") is None
    assert world.runs[0][1]["ScheduleStatus"] is None


async def test_exception_does_not_stop_the_schedule(world: World) -> None:
    """Without a policy there is no retry either."""
    world.answer = lambda _call: FunctionFailed("ValueError: x", "")
    assert await world.run_for(timedelta(minutes=11)) == ["12:05:00", "12:10:00"]


async def test_retry_policy_repeats_a_failed_run(world: World) -> None:
    """With its delay, with the count in the retry context, and not beyond its limit."""
    world.retry = RetryPolicy(RetryStrategy.FIXED_DELAY, 2, timedelta(seconds=10), timedelta(seconds=10))
    world.answer = lambda _call: FunctionFailed("ValueError: x", "")
    assert await world.run_for(timedelta(minutes=6)) == ["12:05:00", "12:05:10", "12:05:20"]
    assert [(call.retry_count, call.max_retry_count) for call in world.worker.calls] == [
        (0, 2),
        (1, 2),
        (2, 2),
    ]


def test_exponential_delay_doubles_up_to_its_limit() -> None:
    """Also after many attempts."""
    policy = RetryPolicy(RetryStrategy.EXPONENTIAL_BACKOFF, -1, timedelta(seconds=2), timedelta(seconds=15))
    assert [policy.delay(count) for count in (0, 1, 2, 3, 1000)] == [2, 4, 8, 15, 15]


def test_wrong_schedule_ends_the_start(world: World) -> None:
    """The function and the schedule are named."""
    trigger = TimerTrigger("timer", "0 0 0 31 2 *", run_on_startup=False, use_monitor=True)
    with pytest.raises(StartError, match="function f has the schedule '0 0 0 31 2 \\*'"):
        TimerRunner(function(trigger), trigger, world.monitor, invocations(world.worker))


@pytest.mark.process
async def test_past_due_timer_runs_with_its_retries(tmp_path: Path) -> None:
    """A missed yearly run is done at start; the retry context counts, the record is updated."""
    monitor = ScheduleMonitor(tmp_path / "data" / "timers")
    last, due = (datetime(year, 1, 1) for year in (2020, 2021))  # noqa: DTZ001 - timers count naive UTC
    monitor.save("fails_twice", ScheduleStatus(last=last, next=due, updated=last))
    host = await start_host(tmp_path, settings=WITHOUT_BROKER)
    await until(lambda: [trace["retry"] for trace in traces(tmp_path, "fails_twice")] == [0, 1, 2])
    now = datetime.now(UTC).replace(tzinfo=None)
    await until(lambda: (record := monitor.load("fails_twice")) is not None and record.next > now)
    await host.stop()


@pytest.mark.process
async def test_schedule_comes_from_a_setting_and_starts_at_once(tmp_path: Path) -> None:
    """%TICK% is resolved; it runs at startup, then each second."""
    host = await start_host(tmp_path, settings={**WITHOUT_BROKER, "TICK": "* * * * * *"})
    seen = await until(lambda: len(found := traces(tmp_path, "tick")) >= 3 and found)
    assert [trace["past_due"] for trace in seen[:3]] == [False, False, False]
    await host.stop()
