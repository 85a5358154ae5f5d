"""The indexes on Table Storage: pages between two times, and tasks by id prefix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.events import Event
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Index
from functions.store.indexes import TableTaskIndex
from tests.fakes.tasks import after, claimed, completed, failed, pending, started
from tests.fakes.workflows import LINE, step, workflow
from tests.integration.processes import Process

pytestmark = pytest.mark.process

ONE_STEP = workflow(step("pick"))


@pytest.fixture
def index(table: TableClient) -> TableTaskIndex:
    """Read the indexes of a table with one shard."""
    return TableTaskIndex(table, shards=1, figures=StoreFigures())


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
    assert await index.named("ab", 0, most=10) == ["ab-1", "ab-2", "ab"]
    assert await index.named("ab", 0, most=2) == ["ab-1", "ab-2"]
    assert await index.named("ab-", 0, most=10) == ["ab-1", "ab-2"]
    assert await index.named("nobody", 0, most=10) == []
