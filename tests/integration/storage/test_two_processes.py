"""The state store of two processes on a real Azurite: costs, conflicts, lost answers, corrupt rows."""

from __future__ import annotations

import asyncio

import pytest

from functions.core.derive import ProcessState, derive
from functions.core.record import OperationState, StepSpec, StepType
from functions.core.task_events import EventReceived, RunStarted
from functions.storage.azure_table import AzureTable
from functions.storage.table_contract import (
    RowQuery,
    every_page,
)
from tests.fakes.storage_process import StorageProcess, real_now

pytestmark = pytest.mark.process

EVENTS = tuple(StepSpec(name=f"e{n}", type=StepType.EVENT, complete_within=600) for n in range(20))


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
    assert (row.get("LockedBy"), row.get("CompleteBy")) == (None, None)
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
    """Both learn of the same starts, of which none was replaced."""
    one, other = (StorageProcess(azure_table, real_now) for _ in range(2))
    steps = [StepSpec(name=f"s{n}", agent="a", idempotent=n > 0) for n in range(9)]
    await one.admit("t1", *steps)
    started = await asyncio.gather(*(each.change("t1", None, plan=each.plan()) for each in (one, other)))
    record = await one.storage.load("t1")
    assert record is not None
    for step in steps:
        do = record.do(step.name)
        assert (do.state, do.unknown_starts) == (OperationState.RUNNING, 1)
        assert {each.record.do(step.name).start_id for each in started} == {do.start_id}


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
