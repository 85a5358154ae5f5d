"""Reads of the index, its repair, and retention."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.core.derive import ProcessState
from functions.core.record import StepSpec, TaskRecord
from functions.core.rules import admit
from functions.core.task_events import GateReleased, StepDeferred, Suspended
from functions.storage.index_pages import EntryPage, ListedTask, listed_task, read_entries
from functions.storage.row_keys import TaskIndex, index_range
from functions.storage.table_contract import CorruptRowError, Row, RowChange, RowQuery
from functions.storage.table_maintenance import IndexRepair, Maintained, delete_finished
from functions.supervisor.task_sweep import due_task
from tests.fakes.simulated_table import SimulatedTable, TableFault
from tests.fakes.storage_process import START, StorageProcess, line, order, virtual_now
from tests.unit.storage.virtual import virtual

STEP = line(1)
LATER = START + timedelta(days=1)


async def admitted(
    *tasks: str, table: SimulatedTable | None = None, page: int = 1000, search_keys: tuple[str, ...] = ()
) -> tuple[SimulatedTable, StorageProcess]:
    """Admit tasks that are due one second after the other, by default to a new table."""
    table = table or SimulatedTable(page=page)
    process = StorageProcess(table)
    for number, task in enumerate(tasks):
        record = admit(order(task, *STEP), START + timedelta(seconds=number), process.settings)
        await process.storage.admit(record, search_keys)
    return table, process


async def page_of(table: SimulatedTable, query: RowQuery) -> EntryPage[ListedTask]:
    """Return a page of the only shard."""
    return await read_entries(table, "000", query, listed_task)


async def tasks_of(table: SimulatedTable, query: RowQuery) -> list[str]:
    """Return the tasks of all pages, two rows a page, while each last row is deleted by another process."""
    tasks: list[str] = []
    cursor: str | None = None
    while True:
        page = await page_of(table, replace(query, beyond=cursor, most=2))
        tasks += [each.task for each in page.entries]
        cursor = page.cursor
        if cursor is None:
            return tasks
        table.rows.pop(("000", cursor))


@virtual
async def test_due_tasks_are_read_by_time_and_continued_at_a_key() -> None:
    """Tasks that fail forever hide no other one."""
    table, _ = await admitted(*(f"t{n}" for n in range(5)), page=2)
    query = index_range(TaskIndex.DUE, until=START + timedelta(seconds=34))
    first = (await page_of(table, query)).entries[0]
    assert (first.task, first.at) == ("t0", START + timedelta(seconds=30))
    assert await tasks_of(table, query) == ["t0", "t1", "t2", "t3"]


@virtual
async def test_empty_page_is_not_the_end() -> None:
    """The service may return pages without rows."""
    table, process = await admitted("t1", page=1)
    await process.admit("t2", correlation_id="c-7")
    page = await page_of(table, replace(index_range(TaskIndex.DUE), having="CorrelationID"))
    assert [each.task for each in page.entries] == ["t2"]


@virtual
async def test_corrupt_index_row_hides_no_other() -> None:
    """It is named in the page."""
    table, _ = await admitted("t1", "t2")
    table.write("000", [RowChange("insert", "!due|3never|t0", {})])
    page = await read_entries(table, "000", index_range(TaskIndex.DUE), due_task)
    assert page.entries == ["t1", "t2"]
    assert [each.row_key for each in page.corrupt] == ["!due|3never|t0"]
    [first, _] = table.keys("!due|2")
    del table.rows["000", first]["Workflow"]
    listed = await page_of(table, index_range(TaskIndex.DUE))
    assert ([each.task for each in listed.entries], len(listed.corrupt)) == (["t2"], 2)
    table.rows["000", first]["Workflow"] = 7
    assert len((await page_of(table, index_range(TaskIndex.DUE))).corrupt) == 2


@virtual
async def test_lists_of_operators() -> None:
    """By state, by search key and by version; the newest are first."""
    table, process = await admitted("a1", "a2", "b1", search_keys=("customer|7",), page=3)
    for task in ("a1", "a2"):
        await process.process(task)
        await process.change("b1", None)
    done = await page_of(table, index_range(TaskIndex.DONE))
    assert [each.task for each in done.entries] == ["a2", "a1"]
    assert {each.state for each in done.entries} == {ProcessState.PROCESSED}
    assert done.entries[0].at is not None
    assert done.entries[0].at > START
    await process.change("b1", Suspended(reason="not deployed"))
    waiting = await page_of(table, index_range(TaskIndex.SUSPENDED, "w|1"))
    assert [(each.task, each.at) for each in waiting.entries] == [("b1", None)]
    found = index_range(TaskIndex.FIND, "customer|7")
    assert sorted(await tasks_of(table, found)) == ["a1", "a2", "b1"]


@virtual
async def test_deferred_tasks_are_listed_in_waiting_order() -> None:
    """The release chain of a gate reads its rows from the oldest."""
    table, process = await admitted("t2", "t1")
    for task in ("t2", "t1"):
        await process.change(task, StepDeferred(epoch=1, step="s0"))
    waiting = await page_of(table, index_range(TaskIndex.GATE, "a"))
    assert [each.task for each in waiting.entries] == ["t2", "t1"]
    listed = await page_of(table, index_range(TaskIndex.GATE))
    assert [each.workflow for each in listed.entries] == ["w", "w"]
    assert await compared(process, 10) == Maintained(tasks=2)
    del table.rows["000", table.keys("!gate|")[0]]
    assert (await compared(process, 10)).created == 1
    await process.change("t1", GateReleased(gate="a", most=1))
    assert [key.rpartition("|")[2] for key in table.keys("!gate|")] == ["t2"]


async def compared(process: StorageProcess, window: int) -> Maintained:
    """Compare a whole shard, window by window."""
    repair = IndexRepair(process.storage, window=window)
    total, cursor = Maintained(), None
    while True:
        result = await repair.compare(0, cursor)
        for name in ("tasks", "created", "deleted", "failed"):
            setattr(total, name, getattr(total, name) + getattr(result, name))
        total.corrupt += result.corrupt
        cursor = result.cursor
        if cursor is None:
            return total


@pytest.mark.parametrize("window", [1, 2, 100])
@virtual
async def test_only_the_index_is_repaired(window: int) -> None:
    """Missing rows are created, and wrong and corrupt ones deleted or replaced."""
    table, process = await admitted(*(f"t{n}" for n in range(6)), search_keys=("k",), page=2)
    await process.process("t1")
    assert await compared(process, window) == Maintained(tasks=6)
    sound = {key: {**row, "odata.etag": ""} for (_, key), row in table.rows.items()}
    due = {key.rpartition("|")[2]: key for key in table.keys("!due|")}
    del table.rows["000", due["t2"]]
    del table.rows["000", due["t3"]]["Workflow"]
    wrong = ["!due|20250101T000000.000000Z|t4", "!done|000000000000000001|t5", "!gate|a|x|t1", "!error|1|t99"]
    table.write("000", [RowChange("insert", key, {}) for key in wrong])
    table.write("000", [RowChange("insert", "!send|alert|x", {})])
    result = await compared(process, window)
    assert (result.created, result.deleted, result.failed, result.corrupt) == (2, 4, 0, [])
    repaired = {key: {**row, "odata.etag": ""} for (_, key), row in table.rows.items()}
    assert repaired.pop("!send|alert|x")
    for rows in (sound, repaired):
        for row in rows.values():
            row.pop("Writes", None)
    assert repaired == sound


@virtual
async def test_wrong_index_column_is_repaired() -> None:
    """The facts decide, and the rows follow."""
    table, process = await admitted("t1")
    due = table.keys("!due|")
    for wrong in ("!due|x|t1", "!done|1|t1"):
        table.rows["000", "t1|task"]["Index"] = wrong
        table.write("000", [RowChange("upsert", wrong, {})])
        result = await compared(process, 10)
        assert (result.created, result.deleted, result.failed) == (0, 1, 0)
        assert table.keys("!d") == due
        assert table.rows["000", "t1|task"]["Index"] == due[0]


@virtual
async def test_index_column_that_names_another_task_is_corrupt() -> None:
    """No change of the task, and no repair, deletes that task's index row."""
    table, process = await admitted("t1", "t2")
    due = table.keys("!due|")
    table.rows["000", "t1|task"]["Index"] = due[1]
    with pytest.raises(CorruptRowError):
        await StorageProcess(table).change("t1", Suspended(reason="me", by_operator=True))
    result = await compared(process, 10)
    assert ({each.row_key for each in result.corrupt}, table.keys("!due|")) == ({"t1|task"}, due)


@virtual
async def test_repair_continues_after_a_corrupt_task() -> None:
    """It is named, and its index row stays."""
    table, process = await admitted("t1", "t2", "t3")
    due = table.keys("!due|")
    table.rows["000", "t1|order"]["Facts"] = "{"
    table.rows["000", "t3|task"]["Index"] = 7
    del table.rows["000", due[0]], table.rows["000", due[1]]
    result = await compared(process, 10)
    assert sorted({each.row_key for each in result.corrupt}) == ["t1|order", "t3|task"]
    assert (result.created, result.deleted) == (1, 0)
    assert table.keys("!due|") == due[1:]


@virtual
async def test_task_that_changes_meanwhile_is_compared_again() -> None:
    """The repair is guarded by the ETag of the task row."""
    table, process = await admitted("t1")
    other = StorageProcess(table)
    [due] = table.keys("!due|")
    del table.rows["000", due]
    record = await other.storage.load("t1")
    assert record is not None

    def change_once(_changes: object) -> None:
        table.rows["000", "t1|task"]["odata.etag"] = "other"
        table.before_send = lambda _changes: None

    table.before_send = change_once
    result = await compared(process, 10)
    assert (result.created, result.failed) == (1, 0)
    assert table.keys("!due|") == [due]
    del table.rows["000", due]
    table.fault = lambda: TableFault.NOT_SENT
    assert (await compared(process, 10)).failed == 1


async def finished(*tasks: str, page: int = 1000) -> tuple[SimulatedTable, StorageProcess]:
    """Return a table and a process after the end of tasks."""
    table, process = await admitted(*tasks, page=page, search_keys=("k", "l"))
    for task in tasks:
        await process.process(task)
    return table, process


@virtual
async def test_retention_deletes_all_rows_of_old_tasks() -> None:
    """Each run makes progress; younger tasks, tasks in `Error` and unsent messages stay."""
    table, process = await finished(*(f"t{n}" for n in range(5)), page=2)
    await admitted("open", table=table)
    failed = replace(admit(order("failed", *STEP), START, process.settings), finished_at=START, error="no")
    await process.storage.admit(failed)
    table.write("000", [RowChange("insert", f"t1|epoch|{n:06d}", {}) for n in range(99)])
    table.write("000", [RowChange("insert", "!send|alert|t1.x", {})])
    storage = process.storage
    none = await delete_finished(storage, 0, START)
    assert (none.deleted, none.cursor) == (0, None)
    first = await delete_finished(storage, 0, LATER, most=3)
    assert (first.deleted, first.failed) == (2, 0)
    assert first.cursor is not None
    cursor: str | None = None
    for _ in range(3):
        cursor = (await delete_finished(storage, 0, LATER, cursor=cursor, most=3)).cursor
    left = {key.split("|")[0] for _, key in table.rows if not key.startswith("!")}
    assert left == {"open", "failed"}
    assert table.keys("!done|") == []
    assert len(table.keys("!find|")) == 0
    assert len(table.keys("!send|alert|t1.x")) == 1
    assert await process.storage.load("t1") is None


@virtual
async def test_task_that_cannot_be_deleted_hides_no_other() -> None:
    """A resumed task, a corrupt one and a fault are passed over, and a lost row costs nothing."""
    table, process = await finished("t1", "t2", "t3", "t4")
    table.rows["000", "t1|task"]["Index"] = "!due|x|t1"
    table.rows["000", "t2|order"]["SubmittedAt"] = "yesterday"
    table.rows.pop(("000", table.keys("!find|k|")[0]))
    del table.rows["000", "t4|task"]
    result = await delete_finished(process.storage, 0, LATER)
    assert (result.deleted, [each.row_key for each in result.corrupt]) == (2, ["t2|order"])
    assert {key.split("|")[0] for key in table.keys("t")} == {"t1", "t2"}


@virtual
async def test_child_is_deleted_after_its_parent() -> None:
    """The undo of the parent includes it."""
    _, process = await admitted("parent")
    child = replace(order("child", *STEP), parent="parent", parent_step="s0")
    await process.storage.admit(admit(child, START, process.settings))
    await process.process("child")
    assert (await delete_finished(process.storage, 0, LATER)).deleted == 0
    await process.process("parent")
    assert (await delete_finished(process.storage, 0, LATER)).deleted == 2


@virtual
async def test_retention_continues_after_a_lost_answer() -> None:
    """No part of a task stays without its index row."""
    for fault in (TableFault.NOT_SENT, TableFault.NO_ANSWER, TableFault.REPEATED):
        table, process = await finished("t1")
        table.write("000", [RowChange("insert", "t1|epoch|000001", {})])
        table.fail_next(fault, fault)
        for _ in range(3):
            await delete_finished(process.storage, 0, LATER)
        assert table.keys() == []


@virtual
async def test_retention_deletes_no_row_of_a_new_task() -> None:
    """One Supervisor has read the index row; another one has deleted the task; then its id is used again."""
    table = SimulatedTable()
    table.write("000", [RowChange("insert", "!done|9|t1", {})])
    read = table.read

    async def then_admit(partition: str, key: str) -> Row | None:
        found = await read(partition, key)
        if key == "t1|task":
            table.read = read  # type: ignore[method-assign]
            await admitted("t1", table=table)
        return found

    table.read = then_admit  # type: ignore[method-assign]
    await delete_finished(StorageProcess(table).storage, 0, LATER)
    assert await StorageProcess(table).storage.load("t1") is not None


@virtual
async def test_retention_of_the_largest_task() -> None:
    """Its rows do not fit into one transaction."""
    table = SimulatedTable()
    process = StorageProcess(table)
    steps = tuple(StepSpec(name=f"s{n}") for n in range(90))
    record: TaskRecord = admit(order("t1", *steps), virtual_now(), process.settings)
    await process.storage.admit(record, [f"k{n}" for n in range(7)])
    await process.process("t1")
    assert (await delete_finished(process.storage, 0, LATER)).deleted == 1
    assert table.keys() == []
