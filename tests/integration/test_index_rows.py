"""Each task has exactly one index row, which depends on its state; and all its rows appear together."""

from __future__ import annotations

import asyncio

import pytest

from functions.pattern.events import Event
from tests.fakes.tasks import claimed, completed, failed, pending, started
from tests.fakes.workflows import LINE, TASK
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process

DUE_AT_PICK_UP = "!due|20261121T100030.123456Z|task-1"
DUE_AT_STEP = "!due|20261121T100020.123456Z|task-1"
#: Microseconds from the end of the task to the end of the year 9999.
LATEST_FIRST = "251607045598876543"
PICKED: list[Event] = [claimed(), started("pick"), completed("pick"), started("send", complete_by=25)]


@pytest.mark.parametrize(
    ("events", "row"),
    [
        (PICKED[:0], DUE_AT_PICK_UP),
        (PICKED[:1], DUE_AT_PICK_UP),
        (PICKED[:2], DUE_AT_STEP),
        (PICKED[:3], DUE_AT_STEP),
        (PICKED, DUE_AT_STEP),
        ([*PICKED, completed("send")], f"!done|{LATEST_FIRST}|task-1"),
        ([*PICKED, failed("send")], f"!error|{LATEST_FIRST}|task-1"),
    ],
    ids=["Pending", "Processing", "running", "between", "running again", "Processed", "Error"],
)
async def test_task_has_only_the_index_row_of_its_state(
    process: Process, events: list[Event], row: str
) -> None:
    """In progress: by its due time, never later than its running step's. Then by the time it finished."""
    await process.store.admit(pending(LINE))
    process.clock.advance(1)
    stored = await process.told(TASK, *events)
    assert await process.index() == [row]
    index = (await process.rows())[row]
    assert (index["OrderID"], index["Workflow"]) == (TASK, "line")
    if not row.startswith("!due"):
        assert index["ProcessState"] == stored.record.task.process_state


async def test_task_row_has_the_patterns_columns(process: Process) -> None:
    """With exactly the pattern's names; null is an absent property."""
    await process.store.admit(pending(LINE))
    await process.told(TASK, claimed())
    row = (await process.rows())["task-1|task"]
    assert {name: row[name] for name in ("OrderID", "LockedBy", "ProcessState", "FailureCount", "Epoch")} == {
        "OrderID": "task-1",
        "LockedBy": "task-1.1",
        "ProcessState": "Processing",
        "FailureCount": 0,
        "Epoch": 1,
    }
    assert "CompleteBy" in row


async def test_all_rows_of_a_task_appear_together(make_process: MakeProcess) -> None:
    """A reader sees all five at any moment, or none."""
    writer, reader = make_process(), make_process()
    seen = set[int]()

    async def watch() -> None:
        while 5 not in seen:
            seen.add(len(await reader.rows()))

    async with asyncio.timeout(60):
        await asyncio.gather(watch(), writer.store.admit(pending(LINE)))
    assert seen <= {0, 5}


async def test_refused_admission_leaves_no_row(process: Process) -> None:
    """One row of the task exists already: the others are not written either."""
    await process.table.create_entity({"PartitionKey": "000", "RowKey": "task-1|step|01"})
    with pytest.raises(Exception, match="task-1"):
        await process.store.admit(pending(LINE))
    assert list(await process.rows()) == ["task-1|step|01"]
