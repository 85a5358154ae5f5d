"""The sweep recovers overdue tasks, continues where it was cut short, and changes no other task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, IndexPage
from functions.supervisor import due_tasks, sweep
from functions.supervisor.course import Course
from tests.fakes.interventions import recovered
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK
from tests.unit.supervisor.conftest import Bench


async def test_overdue_task_is_given_to_the_next_epoch(bench: Bench) -> None:
    """Its Scheduler has let its complete-by time pass: another one gets it."""
    bench.store.put(told(pending(LINE), claimed(), started("pick", complete_by=20)))
    bench.clock.advance(26)
    figures = await bench.sweep()
    task = bench.store.record(TASK).task
    assert (task.process_state, task.epoch, task.failure_count) == (ProcessState.PENDING, SECOND, 1)
    assert (task.locked_by, task.complete_by) == (None, after(26 + 30))
    assert (figures.found, figures.overdue, figures.recovered) == (1, 1, 1)
    assert figures.oldest_overdue == 6


async def test_task_that_was_never_picked_up_is_recovered(bench: Bench) -> None:
    """The message or the instance that should have taken it is lost."""
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    assert (await bench.sweep()).recovered == 1
    assert bench.store.record(TASK).task.epoch == SECOND


@pytest.mark.parametrize("seconds", [0, 20, 25])
async def test_task_within_its_time_is_left_alone(bench: Bench, seconds: float) -> None:
    """Clocks may differ by five seconds, and it was due at 20."""
    bench.store.put(told(pending(LINE), claimed(), started("pick", complete_by=20)))
    bench.clock.advance(seconds)
    assert (await bench.sweep()).found == 0
    assert bench.store.writes == 1


async def test_due_task_that_is_not_overdue_is_looked_at_later(bench: Bench) -> None:
    """Its due time stood at its first step's; it has a new one, and no recovery is counted."""
    record = told(pending(LINE), claimed(), started("pick", complete_by=20))
    bench.store.put(told(record, completed("pick", start_by=90), started("send", complete_by=100)))
    bench.clock.advance(40)
    figures = await bench.sweep()
    task = bench.store.record(TASK).task
    assert (task.due_at, task.epoch, task.failure_count) == (after(100), FIRST, 0)
    assert (figures.postponed, figures.overdue) == (1, 0)
    assert (await bench.sweep()).found == 0


async def test_task_is_given_up_when_its_recoveries_are_used_up(bench: Bench) -> None:
    """Two at once, one after an extended wait, then `Error`."""
    bench.store.put(pending(LINE))
    outcomes = []
    for _ in range(4):
        due_at = bench.store.record(TASK).task.due_at
        bench.clock.advance((due_at - bench.clock.now()).total_seconds() + 6)
        figures = await bench.sweep()
        outcomes.append((figures.recovered, figures.given_up))
    assert outcomes == [(1, 0)] * 3 + [(0, 1)]
    assert bench.store.record(TASK).task.process_state is ProcessState.ERROR
    assert (await bench.sweep()).found == 0


async def test_failure_of_one_task_does_not_stop_the_sweep(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged and counted, and the others are recovered."""
    tasks = [TaskId(f"task-{number}") for number in range(5)]
    for task in tasks:
        bench.store.put(pending(LINE, task))
    bench.store.faults = {tasks[1]: ZeroDivisionError(), tasks[3]: TransientError("503")}
    bench.clock.advance(36)
    figures = await bench.sweep()
    assert (figures.found, figures.recovered, figures.failures) == (5, 3, 2)
    assert {record.levelno: record.getMessage()[:12] for record in caplog.records} == {
        logging.ERROR: "task task-1:",
        logging.WARNING: "task task-3:",
    }


async def test_shard_that_cannot_be_read_does_not_hide_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds is found when it can be read again."""
    tasks = [TaskId(f"task-{number}") for number in range(10)]
    for task in tasks:
        bench.store.put(pending(LINE, task))
    bench.clock.advance(36)
    with monkeypatch.context() as broken:
        page = bench.index.page
        broken.setattr(bench.index, "page", partial(_page_of_second_shard, page))
        first = await bench.sweep()
    second = await bench.sweep()
    assert (first.failures, second.failures) == (2, 0)  # what is due there, and what is parked
    assert (first.recovered > 0, second.recovered > 0) == (True, True)
    assert first.recovered + second.recovered == 10


async def test_index_entry_that_leads_nowhere_is_counted(bench: Bench) -> None:
    """The task is gone, or finished; the full sweep sees to the entry."""
    finished = told(pending(LINE), claimed(), *(f(s) for s in ("pick", "send") for f in (started, completed)))
    bench.store.put(finished)
    bench.index.wrong[Index.DUE] = [
        IndexEntry(TaskId(task), after(0), "line", ProcessState.PENDING, after(0), 1, "ada")
        for task in (TASK, "gone")
    ]
    bench.clock.advance(60)
    figures = await bench.sweep()
    assert (figures.found, figures.stale, figures.overdue, figures.failures) == (2, 2, 0, 0)


async def test_pages_and_what_one_sweep_takes_are_bounded() -> None:
    """The rest is found by the next sweep, and figures say that there is one."""
    bench = Bench(shards=1)
    for number in range(550):
        bench.store.put(pending(LINE, TaskId(f"task-{number}")))
    bench.clock.advance(36)
    figures = await bench.sweep()
    assert (figures.overdue, figures.unfinished) == (500, True)
    figures = await bench.sweep()
    assert (figures.overdue, figures.unfinished) == (50, False)


async def test_sweep_that_hangs_is_cut_short(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so in its heartbeat."""
    monkeypatch.setattr(sweep, "_LONGEST", 0.01)
    monkeypatch.setattr(bench.index, "page", lambda *_, **__: asyncio.sleep(60))
    assert (await bench.sweep()).unfinished
    assert bench.heartbeat.beats[0]["unfinished"]


async def test_two_supervisors_at_once_recover_once(bench: Bench) -> None:
    """Both find the task; the compare-and-swap decides."""
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    one, two = await asyncio.gather(bench.rival("one").run(), bench.rival("two").run())
    assert one.recovered + two.recovered == 1
    assert one.failures + two.failures == 0
    # The cost of two is double the reads: of what is due, and of what is parked.
    assert bench.index.requests == 2 * 2 * bench.index.shards
    assert bench.store.record(TASK).task.epoch == SECOND
    assert bench.store.record(TASK).task.failure_count == 1


async def test_task_that_another_writer_has_changed_is_left_to_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was overdue when it was read, and is in its next epoch when it is written."""
    overdue = bench.store.put(pending(LINE))
    monkeypatch.setattr(bench.store, "load", AsyncMock(return_value=overdue))
    bench.store.put(recovered(pending(LINE)))
    bench.index.wrong[Index.DUE] = [
        IndexEntry(TASK, after(0), "line", ProcessState.PENDING, after(0), 1, "ada")
    ]
    bench.clock.advance(36)
    figures = await bench.sweep()
    assert (figures.overdue, figures.overtaken, figures.recovered) == (1, 1, 0)
    assert bench.store.record(TASK).task.failure_count == 1


async def test_heartbeat_has_the_figures_of_each_sweep(bench: Bench) -> None:
    """Who swept, when, and what came of it, zeros too."""
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    await bench.sweep()
    properties = bench.heartbeat.beats[0]
    assert properties["instance"] == "one"
    assert (properties["started_at"], properties["finished_at"]) == (after(36), after(36))
    assert (properties["recovered"], properties["given_up"]) == (1, 0)
    assert properties["oldest_overdue"] == 6


async def test_heartbeat_that_fails_does_not_fail_the_sweep(bench: Bench) -> None:
    """The next one will do."""
    bench.heartbeat.failure = TransientError("Table Storage: ServiceRequestError")
    assert (await bench.sweep()).failures == 1


async def _page_of_second_shard(
    page: Callable[..., Awaitable[IndexPage]], index: Index, shard: int, **how: object
) -> IndexPage:
    if shard == 0:
        raise RuntimeError("this shard can't be read")
    return await page(index, shard, **how)


def test_shards_without_a_turn_come_first() -> None:
    """Then those that were begun, from where they stopped, then those that were done."""
    course = Course(6, None)
    assert course.shards == (0, 1, 2, 3, 4, 5)
    assert [course.begin(shard) for shard in range(4)] == [None] * 4
    course.came_to(0, None)
    course.came_to(1, "place")
    course.failed(3)
    assert course.unfinished
    following = Course(6, course.figures())
    assert following.shards == (4, 5, 1, 2, 0, 3)
    assert [following.begin(shard) for shard in following.shards] == [None, None, "place", None, None, None]


def test_places_in_all_shards_fit_into_one_property() -> None:
    """Bytes have 64 KiB; a continuation of Table Storage takes up to 190 characters."""
    course = Course(256, None)
    for shard in course.shards:
        course.begin(shard)
        course.came_to(shard, "x" * 190)
    [left] = course.figures().values()
    assert (type(left), len(left) <= 64 * 1024) == (bytes, True)


def test_course_that_came_to_its_end_leaves_nothing() -> None:
    """The next one begins anew."""
    course = Course(2, None)
    for shard in course.shards:
        course.begin(shard)
        course.came_to(shard, None)
    assert not course.unfinished
    assert Course(2, course.figures()).shards == (0, 1)


@pytest.mark.parametrize("left", ["{", "[]", "7", '{"a": null}', '{"9": null}', None, 7])
def test_damaged_heartbeat_is_taken_for_none(left: object) -> None:
    """A sweep from the beginning does no harm."""
    assert Course(2, {"left": left}).shards == (0, 1)


async def test_tasks_that_fail_for_ever_hide_none_behind_them() -> None:
    """There are more of them than one sweep takes: the next one continues behind them."""
    bench = Bench(shards=1)
    for task in (TaskId(f"bad-{number:03}") for number in range(600)):
        bench.store.put(pending(LINE, task))
        bench.store.faults[task] = TransientError("never")
    bench.clock.advance(1)
    bench.store.put(pending(LINE, TaskId("healthy")))
    bench.clock.advance(60)
    swept = [await bench.sweep() for _ in range(3)]
    assert [each.asked_again + each.extended for each in swept] == [0, 1, 0]
    assert [each.unfinished for each in swept] == [True, False, True]


async def test_tasks_beyond_one_sweep_are_each_extended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sweep takes one page of either shard, from its cursor on."""
    monkeypatch.setattr(sweep, "_PAGES", 1)
    bench = Bench()
    for number in range(450):
        bench.store.put(pending(LINE, TaskId(f"task-{number:03}")))
    bench.clock.advance(36)
    assert [(await bench.sweep()).unfinished for _ in range(3)] == [True, True, False]
    extensions = [record.task.extended for record in bench.store.records()]
    assert {each.times for each in extensions if each is not None} == {1}
    assert None not in extensions


async def test_page_that_hangs_costs_the_others_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep is cut short; shards that had no turn have it first in the next one."""
    bench = Bench(shards=8)
    read: list[int] = []
    page = bench.index.page

    async def hang_for_some(index: Index, shard: int, **how: Any) -> IndexPage:
        if index is not Index.DUE:
            return await page(index, shard, **how)
        read.append(shard)
        if shard < 4:
            await asyncio.sleep(60)
        return await page(index, shard, **how)

    monkeypatch.setattr(bench.index, "page", hang_for_some)
    monkeypatch.setattr(sweep, "_LONGEST", 0.5)
    for _ in range(2):
        assert (await bench.sweep()).unfinished
    assert read == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]


async def test_task_that_hangs_is_left_and_the_others_are_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its read has no answer; it costs its own time, not the sweep's."""
    bench = Bench(shards=1)
    for number in range(30):
        bench.store.put(pending(LINE, TaskId(f"task-{number}")))
    bench.store.hanging = {TaskId("task-0")}
    monkeypatch.setattr(due_tasks, "_LONGEST_LOOK", 0.5)
    bench.clock.advance(60)
    figures = await bench.sweep()
    assert (figures.asked_again, figures.failures, figures.unfinished) == (29, 1, False)


async def test_place_that_is_none_is_the_beginning(bench: Bench) -> None:
    """Whatever a heartbeat holds."""
    bench = Bench(shards=1)
    bench.store.put(pending(LINE))
    bench.clock.advance(60)
    beat: Mapping[str, Any] = {"left": '{"0": "nonsense"}'}
    bench.heartbeat.pretend(beat)
    assert (await bench.sweep()).recovered == 1
