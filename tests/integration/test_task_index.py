"""The index of tasks: its pages, its filters, and the batch that is replayed."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus

import pytest
from azure.data.tables.aio import TableClient

from functions.operations.tasks import bulk as selections
from functions.operations.tasks.bulk import Selection
from functions.operations.tasks.query import Filter
from functions.pattern.errors import TransientError
from functions.pattern.events import Event, Parked, Released
from functions.pattern.identity import StepName, TaskId, scheduler_id
from functions.pattern.ports import Ports
from functions.pattern.request_figures import StoreFigures
from functions.pattern.search_keys import search_key
from functions.pattern.shared_rows import Chore
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from functions.pattern.transitions import admit
from functions.store.conditional_rows import ConditionalRows, TableHeartbeats
from functions.store.indexes import TableTaskIndex
from functions.web.problems import ProblemError
from tests.fakes.clock import START
from tests.fakes.interventions import park_request, resubmission
from tests.fakes.ports import fake_ports
from tests.fakes.shards import shards_in
from tests.fakes.tasks import FIRST, after, claimed, completed, failed, pending, started
from tests.fakes.workflows import LINE, order, step, workflow
from tests.integration.processes import Process

pytestmark = pytest.mark.process


ONE_STEP = workflow(step("pick"))
WEIGHED = workflow(step("pick"), find_by=lambda parcel: [f"Weight {parcel.weight}"])


@pytest.fixture
def index(table: TableClient) -> TableTaskIndex:
    """Read the indexes of a table with one shard."""
    return TableTaskIndex(shards_in(table), StoreFigures())


async def _admit(process: Process, *names: str) -> None:
    """Submit tasks that are due at intervals of ten seconds."""
    for number, name in enumerate(names):
        record = pending(LINE, TaskId(name))
        due = replace(record.task, due_at=after(10 * number))
        await process.store.admit(replace(record, task=due))


async def test_page_begins_and_ends_at_the_given_times(process: Process, index: TableTaskIndex) -> None:
    """The start time is included, the end time is not; entries hold the time of submission."""
    await _admit(process, "a", "b", "c")
    page = await index.page(Index.DUE, 0, since=after(10), until=after(20), most=10)
    [entry] = page.entries
    assert (entry.task, entry.at, entry.submitted_at) == ("b", after(10), after(0))
    assert page.continuation is None


@pytest.mark.parametrize(("which", "end"), [(Index.ERROR, failed), (Index.DONE, completed)])
async def test_finished_tasks_are_listed_newest_first(
    process: Process, index: TableTaskIndex, which: Index, end: Callable[..., Event]
) -> None:
    """Page by page; of the two times, the first is included, the second is not."""
    for task in map(TaskId, "abcd"):
        await process.store.admit(pending(ONE_STEP, task))
        await process.told(task, claimed(task=task), started("pick", task=task), end("pick", task=task))
        process.clock.advance(5)
    first = await index.page(which, 0, most=3)
    last = await index.page(which, 0, after=first.continuation, most=3)
    entries = [(each.task, each.at) for each in (*first.entries, *last.entries)]
    assert entries == [("d", after(15)), ("c", after(10)), ("b", after(5)), ("a", after(0))]
    between = await index.page(which, 0, since=after(5), until=after(15), most=10)
    assert [each.task for each in between.entries] == ["c", "b"]


async def test_tasks_are_found_by_the_beginning_of_their_ids(process: Process, index: TableTaskIndex) -> None:
    """Each once; ids that only contain the prefix do not match, nor do index rows."""
    await _admit(process, "ab-2", "ab-1", "ab", "b", "xab", "AB")
    assert await _named(index, "ab") == ["ab-1", "ab-2", "ab"]
    assert await _named(index, "ab-") == ["ab-1", "ab-2"]
    assert await _named(index, "nobody") == []


async def test_tasks_under_a_beginning_come_page_by_page(process: Process, index: TableTaskIndex) -> None:
    """With what their orders tell."""
    await _admit(process, "ab-2", "ab-1", "ab-3")
    first = await index.named("ab", 0, most=2)
    last = await index.named("ab", 0, after=first.continuation, most=2)
    assert [each.task for each in (*first.entries, *last.entries)] == ["ab-1", "ab-2", "ab-3"]
    entry = first.entries[0]
    assert (entry.workflow, entry.submitter, entry.correlation_id) == ("line", "tester", "c-1")
    assert (entry.at, entry.state) == (after(0), None)


async def test_tasks_are_found_by_a_text_the_latest_first(process: Process, index: TableTaskIndex) -> None:
    """Whatever has become of them meanwhile; another text finds others."""
    for number, (name, weight) in enumerate([("a", 7), ("b", 8), ("c", 7), ("d", 7)]):
        record = admit(
            replace(order(WEIGHED, TaskId(name), weight), submitted_at=after(number)), pick_up_by=after(60)
        )
        await process.store.admit(record)
    await process.told(TaskId("a"), claimed(task=TaskId("a")))
    first = await index.found(search_key("weight 7"), 0, until=after(3), most=1)
    last = await index.found(search_key("weight 7"), 0, until=after(3), after=first.continuation, most=5)
    assert [each.task for each in (*first.entries, *last.entries)] == ["c", "a"]
    assert (await index.found(search_key("weight 9"), 0, most=5)).entries == ()


async def test_index_row_tells_the_cause_of_an_error(process: Process, index: TableTaskIndex) -> None:
    """The step, and the error's class; and who submitted it."""
    task = TaskId("a")
    await process.store.admit(pending(ONE_STEP, task))
    refusal = failed("pick", task=task, error="pick answered 422: no 17")
    await process.told(task, claimed(task=task), started("pick", task=task), refusal)
    [entry] = (await index.page(Index.ERROR, 0, most=5)).entries
    assert (entry.step, entry.error) == ("pick", "pick: pick answered 422: no …")
    assert (entry.submitter, entry.correlation_id) == ("tester", "c-1")


async def _named(index: TableTaskIndex, prefix: str) -> list[str]:
    return [each.task for each in (await index.named(prefix, 0, most=10)).entries]


@pytest.fixture
def ports(process: Process, table: TableClient) -> Ports:
    """Read a table with one shard."""
    index = TableTaskIndex(shards_in(table), StoreFigures())
    return fake_ports(index=index, store=process.store)


async def _refused(process: Process, *names: str) -> None:
    """Bring tasks into `Error`, ten at the same moment."""
    for number, task in enumerate(map(TaskId, names)):
        await process.store.admit(pending(ONE_STEP, task))
        await process.told(task, claimed(task=task), started("pick", task=task), failed("pick", task=task))
        process.clock.advance(1 if number % 10 == 0 else 0)


async def _pages(selection: Selection) -> list[list[TaskId]]:
    pages, cursor = [], None
    while True:
        page = await selection.page(cursor)
        pages.append([entry.task for entry in page.entries])
        cursor = page.cursor
        if cursor is None:
            return pages


async def test_each_is_read_once_while_they_leave_the_index(
    process: Process, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And while others enter it: those are too new, or lie behind."""
    monkeypatch.setattr(selections, "MOST_PER_PAGE", 7)
    names = [f"e-{number}" for number in range(30)]
    await _refused(process, *names)
    selection = Selection(ports, Filter(state=ProcessState.ERROR), process.clock.now())
    process.clock.advance(5)
    assert (await selection.count())[0] == 30
    read: list[TaskId] = []
    cursor = None
    while True:
        page = await selection.page(cursor)
        read += [entry.task for entry in page.entries]
        await asyncio.gather(*(process.told(entry.task, resubmission()) for entry in page.entries))
        await _refused(process, f"later-{len(read)}")
        if (cursor := page.cursor) is None:
            break
    assert sorted(read) == sorted(names)
    assert (await selection.count())[0] == 0


async def test_ids_with_a_prefix_are_read_page_by_page(
    process: Process, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any state."""
    monkeypatch.setattr(selections, "MOST_PER_PAGE", 2)
    await _refused(process, "a-1", "a-2", "b-1")
    await process.store.admit(pending(LINE, TaskId("a-3")))
    pages = await _pages(Selection(ports, Filter(prefix="a-"), after(60)))
    assert pages == [["a-1", "a-2"], ["a-3"]]


async def test_operators_tasks_come_behind_all_that_are_parked(process: Process, ports: Ports) -> None:
    """A sweep that reads the first knows whether any waits for a deployment."""
    for task in map(TaskId, ("a", "z")):
        await process.store.admit(pending(LINE, task))
    await process.told(TaskId("a"), park_request())
    lacking = Parked(epoch=FIRST, scheduler=scheduler_id(TaskId("z"), FIRST), reason="not here")
    await process.told(TaskId("z"), claimed(task=TaskId("z")), lacking)
    page = await ports.index.page(Index.PARKED, 0, most=5)
    assert [(entry.task, entry.parked_by_operator) for entry in page.entries] == [("z", False), ("a", True)]
    waiting = await ports.index.parked("line", 1, 0, after=None, most=5)
    assert [entry.task for entry in waiting.entries] == ["z"]
    assert await _pages(Selection(ports, Filter(parked=True), after(60))) == [["z", "a"]]


async def test_cursor_that_storage_does_not_know_is_refused(
    process: Process, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """422, not a failure."""
    monkeypatch.setattr(selections, "MOST_PER_PAGE", 1)
    await _refused(process, "e-1", "e-2")
    selection = Selection(ports, Filter(), after(60))
    place = json.loads(urlsafe_b64decode(f"{(await selection.page(None)).cursor}=="))
    forged = urlsafe_b64encode(json.dumps(place | {"after": "x"}).encode()).decode()
    with pytest.raises(ProblemError) as refusal:
        await selection.page(forged)
    assert refusal.value.status == HTTPStatus.UNPROCESSABLE_ENTITY


def _index(process: Process) -> TableTaskIndex:
    return TableTaskIndex(shards_in(process.table), process.figures)


async def _admit_count(process: Process, count: int) -> list[TaskId]:
    tasks = [TaskId(f"task-{number}") for number in range(count)]
    for task in tasks:
        await process.store.admit(pending(LINE, task))
    process.figures.reads = 0
    return tasks


async def test_index_is_read_by_pages_of_one_request(process: Process) -> None:
    """Each page says where the next begins; no entry is skipped or returned twice."""
    tasks = await _admit_count(process, 5)
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
    first, second = await _admit_count(process, 2)
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
    done, broken, waiting, parked = await _admit_count(process, 4)
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
