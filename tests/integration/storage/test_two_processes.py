"""The state store of two processes on a real Azurite: the columns of its rows, and each start."""

from __future__ import annotations

import asyncio

import pytest

from functions.core.record import OperationState, StepSpec
from functions.storage.azure_table import AzureTable
from tests.fakes.storage_process import StorageProcess, real_now

pytestmark = pytest.mark.process


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
