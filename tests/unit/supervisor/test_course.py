"""A sweep that ran out of time is continued by the next one, wherever that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.store_ports import Index, IndexPage, Stored
from functions.supervisor import due_tasks, sweep
from functions.supervisor.course import Course
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE
from tests.unit.supervisor.bench import Bench


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


async def test_tasks_that_fail_for_ever_hide_none_behind_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more of them than one sweep takes: the next one continues behind them."""
    bench = Bench(shards=1)
    for number in range(600):
        bench.store.put(pending(LINE, TaskId(f"bad-{number:03}")))
    bench.clock.advance(1)
    late = TaskId("healthy")
    bench.store.put(pending(LINE, late))
    change = bench.store.change

    async def fail_for_bad(task: TaskId, event: Any, *, read: Stored) -> Any:
        if task.startswith("bad"):
            raise TransientError("never")
        return await change(task, event, read=read)

    monkeypatch.setattr(bench.store, "change", fail_for_bad)
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


async def test_task_that_hangs_is_left_and_the_others_are_recovered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its read has no answer; it costs its own time, not the sweep's."""
    bench = Bench(shards=1)
    for number in range(30):
        bench.store.put(pending(LINE, TaskId(f"task-{number}")))
    load = bench.store.load

    async def hang_for_one(task: TaskId) -> Stored | None:
        if task == "task-0":
            await asyncio.sleep(60)
        return await load(task)

    monkeypatch.setattr(bench.store, "load", hang_for_one)
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
