"""The indexes on Table Storage: pages between two times, and tasks by id prefix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.events import Event
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.search_keys import search_key
from functions.pattern.store_ports import Index
from functions.pattern.transitions import admit
from functions.store.indexes import TableTaskIndex
from tests.fakes.shards import shards_in
from tests.fakes.tasks import after, claimed, completed, failed, pending, started
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
