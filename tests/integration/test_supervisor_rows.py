"""The Supervisor's rows on the real table: index pages, heartbeat."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.events import Parked, Released
from functions.pattern.identity import StepName, TaskId, scheduler_id
from functions.pattern.shared_rows import Chore
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from functions.store.conditional_rows import ConditionalRows, TableHeartbeats
from functions.store.indexes import TableTaskIndex
from tests.fakes.clock import START
from tests.fakes.shards import shards_in
from tests.fakes.tasks import FIRST, after, claimed, completed, failed, pending, started
from tests.fakes.workflows import LINE
from tests.integration.processes import Process

pytestmark = pytest.mark.process


def _index(process: Process) -> TableTaskIndex:
    return TableTaskIndex(shards_in(process.table), process.figures)


async def _admit(process: Process, count: int) -> list[TaskId]:
    tasks = [TaskId(f"task-{number}") for number in range(count)]
    for task in tasks:
        await process.store.admit(pending(LINE, task))
    process.figures.reads = 0
    return tasks


async def test_index_is_read_by_pages_of_one_request(process: Process) -> None:
    """Each page says where the next begins; no entry is skipped or returned twice."""
    tasks = await _admit(process, 5)
    found: list[TaskId] = []
    after_page = None
    sizes = []
    while True:
        page = await _index(process).page(Index.DUE, 0, after=after_page, most=2)
        found += [entry.task for entry in page.entries]
        sizes.append(len(page.entries))
        after_page = page.continuation
        if after_page is None:
            break
    assert (found, sizes, process.figures.reads) == (tasks, [2, 2, 1], 3)


async def test_index_is_read_up_to_a_time_and_oldest_first(process: Process) -> None:
    """A task due at exactly that time is not included."""
    first, second = await _admit(process, 2)
    await process.told(second, claimed(task=second), started("pick", task=second, complete_by=20))
    for seconds, tasks in ((20, []), (21, [second]), (30, [second]), (31, [second, first])):
        page = await _index(process).page(Index.DUE, 0, until=after(seconds), most=10)
        assert [entry.task for entry in page.entries] == tasks
        assert page.continuation is None


def _entry(task: TaskId, at: datetime, state: ProcessState) -> IndexEntry:
    return IndexEntry(task, at, "line", state, START, 1, "tester", correlation_id="c-1")


async def test_each_index_has_its_own_tasks(process: Process) -> None:
    """With the time from the key, the workflow, the state, and the time of submission.

    A parked task has no time in its key, and leaves the due ones; released, it is among them again.
    """
    done, broken, waiting, parked = await _admit(process, 4)
    parking = Parked(epoch=FIRST, scheduler=scheduler_id(parked, FIRST), reason="not here")
    await process.told(parked, claimed(task=parked), parking)
    process.clock.advance(1)
    picked, sent = ((started(step, task=done), completed(step, task=done)) for step in ("pick", "send"))
    await process.told(done, claimed(task=done), *picked, *sent)
    await process.told(
        broken, claimed(task=broken), started("pick", task=broken), failed("pick", task=broken)
    )
    entries = {index: (await _index(process).page(index, 0, most=10)).entries for index in Index}
    assert entries == {
        Index.PARKED: (_entry(parked, START, ProcessState.PENDING),),
        Index.DUE: (_entry(waiting, after(30), ProcessState.PENDING),),
        Index.ERROR: (
            replace(
                _entry(broken, after(1), ProcessState.ERROR), step=StepName("pick"), error="pick: no money"
            ),
        ),
        Index.DONE: (_entry(done, after(1), ProcessState.PROCESSED),),
    }
    await process.told(parked, Released(epoch=FIRST, start_by=after(40)))
    entries = {index: (await _index(process).page(index, 0, most=10)).entries for index in Index}
    assert [entry.task for entry in entries[Index.DUE]] == [waiting, parked]
    assert entries[Index.PARKED] == ()


async def test_parked_tasks_are_read_by_the_version_that_they_wait_for(process: Process) -> None:
    """Page by page; those of version 10 are not those of version 1."""
    for version, name in ((1, "a"), (10, "b"), (1, "c"), (2, "d")):
        task = TaskId(name)
        await process.store.admit(pending(replace(LINE, version=version), task))
        parking = Parked(epoch=FIRST, scheduler=scheduler_id(task, FIRST), reason="not here")
        await process.told(task, claimed(task=task), parking)
    first = await _index(process).parked("line", 1, 0, after=None, most=1)
    last = await _index(process).parked("line", 1, 0, after=first.continuation, most=1)
    assert [entry.task for entry in (*first.entries, *last.entries)] == ["a", "c"]
    assert last.continuation is None
    [other] = (await _index(process).parked("line", 10, 0, after=None, most=5)).entries
    assert (other.task, other.version) == ("b", 10)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"RowKey": 1}'])
async def test_forged_continuation_is_refused(process: Process, text: str) -> None:
    """It can come from a caller's cursor."""
    with pytest.raises(ValueError, match="validation error"):
        await _index(process).page(Index.DUE, 0, after=text, most=2)


async def test_heartbeat_is_that_of_the_last_sweep(process: Process) -> None:
    """With its figures by name; there is none before the first sweep."""
    heartbeat = _heartbeat(process)
    assert await heartbeat.latest(Chore.SWEEP) is None
    for recovered in (1, 2):
        beat = {"instance": "one", "finished_at": after(1), "recovered": recovered, "oldest_overdue": 1.5}
        await heartbeat.beat(Chore.SWEEP, beat)
    assert await heartbeat.latest(Chore.SWEEP) == beat
    assert await heartbeat.latest(Chore.HOUSEKEEPING) is None


async def test_failing_service_is_a_transient_fault(process: Process) -> None:
    """For each of these rows."""
    await process.table.delete_table()
    with pytest.raises(TransientError):
        await _index(process).page(Index.DUE, 0, most=2)
    with pytest.raises(TransientError):
        await _heartbeat(process).beat(Chore.SWEEP, {"instance": "one"})


def _heartbeat(process: Process) -> TableHeartbeats:
    return TableHeartbeats(ConditionalRows(process.table, new_id=lambda: "", figures=process.figures))
