"""Deletion on the real table: complete, conditional, and never of a task that has changed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Stored
from functions.store.entity_groups import EntityGroups
from functions.store.rejected import TableRejectedMessages
from functions.store.retention import TableTaskRetention
from tests.fakes.clock import START, FakeClock
from tests.fakes.interventions import done, resubmission
from tests.fakes.shards import shards_in
from tests.fakes.tasks import FIRST, SECOND, claimed, completed, failed, pending, started
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.integration.processes import Process

pytestmark = pytest.mark.process


@pytest.fixture
def retention(table: TableClient, groups: EntityGroups) -> TableTaskRetention:
    """Create the deletion of tasks for the test's table."""
    return TableTaskRetention(shards_in(table, groups), StoreFigures())


async def _processed(process: Process) -> Stored:
    """Record a task that was resubmitted once, then completed."""
    await process.store.admit(pending(LINE))
    return await process.told(
        TASK,
        claimed(),
        started("pick"),
        failed("pick"),
        resubmission(FIRST),
        claimed(SECOND),
        *done("pick", "send", epoch=SECOND),
    )


async def _left(process: Process) -> set[str]:
    """Return the rows that remain, except the outbox, which retention does not delete."""
    return {key for key in await process.rows() if not key.startswith("!send")}


async def test_task_is_deleted_with_all_its_rows(process: Process, retention: TableTaskRetention) -> None:
    """Order, state, steps, closed epochs and index; another task's rows stay."""
    stored = await _processed(process)
    await process.store.admit(pending(LINE, TaskId("task-10")))
    others = {key for key in await process.rows() if "task-10" in key}
    assert await retention.delete(stored)
    assert await _left(process) == others
    assert await process.store.load(TASK) is None


async def test_rows_by_which_a_task_is_found_go_with_it(
    process: Process, retention: TableTaskRetention
) -> None:
    """In the same transaction, and those of another task stay."""
    findable = workflow(step("pick"), find_by=lambda parcel: ["Ada", f"weight {parcel.weight}"])
    other = TaskId("task-10")
    for task in (TASK, other):
        await process.store.admit(pending(findable, task))
    stored = await process.told(TASK, claimed(), started("pick"), completed("pick"))
    assert len([key for key in await process.rows() if key.startswith("!find|")]) == 4
    others = {key for key in await process.rows() if other in key}
    assert await retention.delete(stored)
    assert await _left(process) == others


async def test_second_deletion_of_a_task_does_nothing(
    process: Process, retention: TableTaskRetention
) -> None:
    """Of two callers, only one deletes it."""
    stored = await _processed(process)
    assert await retention.delete(stored)
    assert not await retention.delete(stored)


async def test_task_that_has_changed_stays(process: Process, retention: TableTaskRetention) -> None:
    """Its row is not the one that was read, though its index row is."""
    await process.store.admit(pending(LINE))
    before = await process.read(TASK)
    await process.told(TASK, claimed())
    rows = set(await process.rows())
    assert not await retention.delete(before)
    assert set(await process.rows()) == rows


async def test_task_with_a_long_history_is_deleted_too(
    process: Process, retention: TableTaskRetention, table: TableClient
) -> None:
    """It has more rows than a transaction takes; the task's own row is deleted last."""
    stored = await _processed(process)
    for number in range(100):
        kind = "epoch" if number % 2 else "lost"
        await table.create_entity({"PartitionKey": "000", "RowKey": f"{TASK}|{kind}|{number + 10:06d}"})
    assert await retention.delete(stored)
    assert await _left(process) == set()


async def test_rejected_messages_are_deleted_by_age(table: TableClient, groups: EntityGroups) -> None:
    """Old ones, up to a limit; each run deletes more of them."""
    clock = FakeClock()
    rejected = TableRejectedMessages(table, groups, clock=clock, figures=StoreFigures())
    for number in range(3):
        await rejected.reject("submissions", f"m-{number}", b"{", "why")
    clock.advance(3600)
    await rejected.reject("agent-replies/$DeadLetterQueue", "m-9", b"{", "why")
    before = START + timedelta(minutes=1)
    assert [await rejected.delete_before(before, 2) for _ in range(3)] == [2, 1, 0]
    [row] = [row async for row in table.list_entities()]
    assert row["MessageID"] == "m-9"


async def test_discarded_messages_are_kept_from_their_discard_on(
    table: TableClient, groups: EntityGroups
) -> None:
    """As long as any other: who discarded what, and why, is not gone at once with an old message."""
    clock = FakeClock()
    rejected = TableRejectedMessages(table, groups, clock=clock, figures=StoreFigures())
    for number in range(2):
        await rejected.reject("submissions", f"m-{number}", b"{", "why")
        [kept] = (await rejected.listed(queues=(), most=9)).messages
        clock.advance(3600)
        await rejected.discard(kept.id, "olga", "a test")
    assert await rejected.delete_before(START + timedelta(minutes=61), 9) == 1
    [row] = [row async for row in table.list_entities()]
    assert row["MessageID"] == "m-1"
