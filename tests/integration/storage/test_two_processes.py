"""The state store of two processes on a real Azurite: costs, conflicts, lost answers, corrupt rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from functions.core.derive import ProcessState, derive
from functions.core.record import StepSpec, StepType
from functions.core.task_events import EventReceived, RunStarted
from functions.storage.azure_table import AzureTable
from functions.storage.index_pages import index_entry, listed_order, listed_task, orders_query, read_entries
from functions.storage.row_keys import TaskIndex, index_range
from functions.storage.table_contract import (
    CorruptRowError,
    RefusedChanges,
    Row,
    RowChange,
    RowQuery,
    TransientStorageError,
    every_page,
)
from functions.storage.table_maintenance import IndexRepair, TaskRetention
from tests.fakes.storage_process import StorageProcess, real_now

pytestmark = pytest.mark.process

EVENTS = tuple(StepSpec(name=f"e{n}", type=StepType.EVENT, complete_within=600) for n in range(20))


class LossyTable(AzureTable):
    """A table whose next answers are lost."""

    lost = 0

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write, and lose the answer."""
        answer = await super().send(partition, changes)
        if self.lost:
            self.lost -= 1
            raise TransientStorageError("lost")
        return answer


async def entries[EntryT](
    table: AzureTable, query: RowQuery, decode: Callable[[Row], EntryT]
) -> Sequence[EntryT]:
    """Return the entries of a page."""
    return (await read_entries(table, "000", query, decode)).entries


async def keys(table: AzureTable) -> list[str]:
    """Return the keys of all rows of the first shard."""
    pages = every_page(table, "000", RowQuery("!", "~"))
    return [row["RowKey"] async for page in pages for row in page.rows]


async def test_five_step_order_takes_seven_transactions_and_22_rows_and_no_read(
    azure_table: AzureTable,
) -> None:
    """The cost of an order that is alone, without notices."""
    process = StorageProcess(azure_table, real_now)
    await process.admit("t1")
    record = await process.process("t1")
    figures = azure_table.figures
    assert derive(record).state is ProcessState.PROCESSED
    assert (figures["transactions"], figures["reads"], figures["retries"]) == (7, 0, 0)
    assert figures["operations"] <= 22
    assert await StorageProcess(azure_table, real_now).storage.load("t1") == record


async def test_task_row_has_the_columns_of_the_pattern(azure_table: AzureTable) -> None:
    """Operators read them with any tool."""
    process = StorageProcess(azure_table, real_now)
    await process.admit("t1")
    row = await azure_table.read("000", "t1|task")
    assert row is not None
    assert (row["OrderID"], row["ProcessState"], row["FailureCount"]) == ("t1", "Pending", 0)
    assert row.get("LockedBy") is None
    await process.start("t1")
    row = await azure_table.read("000", "t1|task")
    assert row is not None
    assert (row["ProcessState"], row["LockedBy"]) == ("Processing", "t1.1.1")
    assert row["CompleteBy@odata.type"] == "Edm.DateTime"


async def test_orders_in_flight_share_transactions(azure_table: AzureTable) -> None:
    """Tasks of one shard that wait at the same moment are committed together."""
    process = StorageProcess(azure_table, real_now)
    tasks = [f"t{n}" for n in range(60)]
    await asyncio.gather(*map(process.admit, tasks))
    records = await asyncio.gather(*map(process.process, tasks))
    assert {derive(each).state for each in records} == {ProcessState.PROCESSED}
    assert azure_table.figures["transactions"] <= 1.5 * len(tasks)
    assert azure_table.figures["reads"] == 0


async def test_two_processes_record_all_events_of_a_task(azure_table: AzureTable) -> None:
    """Each event is recorded once, whichever process wins."""
    one, other = (StorageProcess(azure_table, real_now) for _ in range(2))
    await one.admit("t1", *EVENTS)
    await one.start("t1")
    await asyncio.gather(
        *(
            process.change("t1", EventReceived(step=spec.name, body=f'"{spec.name}"', who="me"))
            for spec, process in zip(EVENTS, (one, other) * 10, strict=True)
        )
    )
    record = await other.storage.load("t1")
    assert record is not None
    assert derive(record).state is ProcessState.PROCESSED
    assert len(await keys(azure_table)) == 2 + len(EVENTS) + 1


async def test_two_processes_start_each_step_once(azure_table: AzureTable) -> None:
    """A run that is delivered to two processes."""
    one, other = (StorageProcess(azure_table, real_now) for _ in range(2))
    await one.admit("t1")
    started = await asyncio.gather(
        *(each.change("t1", RunStarted(epoch=1, run=1), plan=each.plan()) for each in (one, other))
    )
    record = await one.storage.load("t1")
    assert record is not None
    assert record.do("s0").start_id in {each.record.do("s0").start_id for each in started}


async def test_lost_answers_repeat_nothing(azure_table: AzureTable) -> None:
    """The sender finds its own write, also as one of a group."""
    lossy = LossyTable(azure_table.session, azure_table.name)
    process = StorageProcess(lossy, real_now)
    for task in ("t1", "t2"):
        await process.admit(task, *EVENTS)
    lossy.lost = 3
    event = EventReceived(step="e0", body="{}", who="me")
    applied = await asyncio.gather(*(process.change(task, event) for task in ("t1", "t2")))
    assert [(each.rejection, each.record.step("e0").event) for each in applied] == [(None, "{}")] * 2
    assert len(process.announced) == 4


async def test_record_of_several_pages_is_read_as_of_one_moment(azure_table: AzureTable) -> None:
    """The service ends a page at 4 MiB, or at 1,000 rows."""
    process = StorageProcess(azure_table, real_now)
    payload = '{"text":"' + "x" * 90_000 + '"}'
    steps = [StepSpec(name=f"q{n}", type=StepType.QUEUE, agent="a") for n in range(80)]
    await process.admit("t1", *steps, payload=payload)
    plan = process.plan('{"text":"' + "y" * 29_000 + '"}')
    await process.change("t1", RunStarted(epoch=1, run=1), plan=plan)
    record = (await process.change("t1", None, plan=plan)).record
    assert len(record.steps) == 80
    assert await StorageProcess(azure_table, real_now).storage.load("t1") == record


async def test_corrupt_row_is_named(azure_table: AzureTable) -> None:
    """A step row that is missing is no step that never started."""
    process = StorageProcess(azure_table, real_now)
    await process.admit("t1")
    await process.start("t1")
    await azure_table.send("000", [RowChange("delete", "t1|step|s0")])
    with pytest.raises(CorruptRowError, match=r"t1\|task: .*0 step rows instead of 1"):
        await StorageProcess(azure_table, real_now).storage.load("t1")


async def test_index_is_read_repaired_and_deleted(azure_table: AzureTable) -> None:
    """Lists, the full sweep and retention on the rows as the service returns them."""
    process = StorageProcess(azure_table, real_now)
    repair = IndexRepair(process.storage)
    for task in ("t1", "t2", "t3"):
        await process.admit(task)
    await process.process("t1")
    soon = real_now() + timedelta(minutes=5)
    assert [
        each.task for each in await entries(azure_table, index_range(TaskIndex.DUE, until=soon), index_entry)
    ] == ["t2", "t3"]
    [done] = await entries(azure_table, index_range(TaskIndex.DONE), listed_task)
    assert (done.task, done.workflow, done.state) == ("t1", "w", ProcessState.PROCESSED)
    assert [each.task for each in await entries(azure_table, orders_query("t"), listed_order)] == [
        "t1",
        "t2",
        "t3",
    ]
    due = [key for key in await keys(azure_table) if key.startswith("!due|")]
    await azure_table.send(
        "000", [RowChange("delete", due[0]), RowChange("insert", "!due|20200101T000000.000000Z|t9", {})]
    )
    window = await repair.compare(0)
    assert (window.tasks, window.created, window.deleted, window.failed) == (3, 1, 1, 0)
    assert [key for key in await keys(azure_table) if key.startswith("!due|")] == due
    result = await TaskRetention(process.storage).delete_finished(0, real_now() + timedelta(seconds=1))
    assert (result.deleted, result.failed, result.cursor) == (1, 0, None)
    assert not [key for key in await keys(azure_table) if "t1" in key]
