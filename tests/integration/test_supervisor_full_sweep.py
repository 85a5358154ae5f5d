"""The full sweep of the real table: index rows that are missing, wrong, duplicated or orphaned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.pattern.index_rows import IndexFix, IndexRow, RowPage, row_order
from functions.store.entity_groups import EntityGroups
from tests.fakes.tasks import claimed, completed, pending, started, told
from tests.fakes.workflows import LINE
from tests.integration.supervisors import Supervisor

pytestmark = pytest.mark.process

RIGHT = "!due|20261121T100030.123456Z|{}"
WRONG = "!due|20261121T100031.123456Z|{}"


@pytest.fixture
def supervisor(table: TableClient, groups: EntityGroups) -> Supervisor:
    """Create a Supervisor on an empty table."""
    return Supervisor(table, groups)


async def _rows(table: TableClient) -> dict[str, dict[str, Any]]:
    rows = {row["RowKey"]: dict(row) async for row in table.list_entities()}
    return {key: row for key, row in rows.items() if not key.endswith("-heartbeat")}


async def _damage(table: TableClient, task: str, *, missing: bool = False, wrong: bool = False) -> None:
    if missing:
        await table.delete_entity("000", RIGHT.format(task))
    if wrong:
        row = {"OrderID": task, "Workflow": "line", "ProcessState": "Pending"}
        await table.create_entity({"PartitionKey": "000", "RowKey": WRONG.format(task), **row})


async def test_damage_is_fixed_and_nothing_else_is_changed(
    supervisor: Supervisor, table: TableClient
) -> None:
    """Afterwards all rows are as before, and a second sweep has nothing to fix."""
    for task in ("sound", "missing", "moved", "doubled"):
        await supervisor.store.admit(pending(LINE, TaskId(task)))
    whole = await _rows(table)
    await _damage(table, "missing", missing=True)
    await _damage(table, "moved", missing=True, wrong=True)
    await _damage(table, "doubled", wrong=True)
    await _damage(table, "orphan", wrong=True)
    figures = await supervisor.full_sweep.run()
    assert (figures.tasks, figures.index_rows) == (4, 5)
    assert (figures.created, figures.deleted, figures.failures) == (2, 3, 0)
    fixed = await _rows(table)
    assert _without_write_ids(fixed) == _without_write_ids(whole)
    assert fixed["sound|task"] == whole["sound|task"]
    again = await supervisor.full_sweep.run()
    assert (again.created, again.deleted) == (0, 0)


async def test_index_row_without_its_task_s_id_is_written_anew(
    supervisor: Supervisor, table: TableClient
) -> None:
    """No index names a task by it."""
    await supervisor.store.admit(pending(LINE, TaskId("nameless")))
    whole = await _rows(table)
    right = {"PartitionKey": "000", "RowKey": RIGHT.format("nameless")}
    await table.upsert_entity({**right, "Workflow": "line"}, mode=UpdateMode.REPLACE)
    figures = await supervisor.full_sweep.run()
    assert (figures.created, figures.deleted, figures.failures) == (1, 0, 0)
    assert _without_write_ids(await _rows(table)) == _without_write_ids(whole)


async def test_finished_tasks_are_compared_too(supervisor: Supervisor) -> None:
    """With the index of their state; their outbox rows are no index rows."""
    done = [event(step) for step in ("pick", "send") for event in (started, completed)]
    await supervisor.store.admit(told(pending(LINE), claimed(), *done))
    figures = await supervisor.full_sweep.run()
    assert (figures.tasks, figures.index_rows, figures.created, figures.deleted) == (1, 1, 0, 0)


async def test_task_that_changed_during_the_sweep_is_not_touched(
    supervisor: Supervisor, table: TableClient
) -> None:
    """Its row is not as it was read: it has to be looked at again."""
    rows = supervisor.index_rows
    task = TaskId("moved")
    await supervisor.store.admit(pending(LINE, task))
    await _damage(table, task, wrong=True)
    read = await supervisor.store.load(task)
    assert read is not None
    seen = (await rows.indexed(0, after=None, most=1000)).rows
    assert [row.key for row in seen] == [RIGHT.format(task), WRONG.format(task)]
    await supervisor.store.change(task, claimed(task=task))
    before = await _rows(table)
    assert await rows.fix(read, seen) is None
    assert await _rows(table) == before


async def test_wrong_row_that_is_gone_meanwhile_keeps_the_right_one_from_no_task(
    supervisor: Supervisor, table: TableClient
) -> None:
    """It is read again before it is deleted; a sweep that looks again has seen it at the first look."""
    rows, task = supervisor.index_rows, TaskId("moved")
    await supervisor.store.admit(pending(LINE, task))
    whole = await _rows(table)
    await _damage(table, task, missing=True, wrong=True)
    [seen] = (await rows.indexed(0, after=None, most=1000)).rows
    await table.delete_entity("000", seen.key)
    read = await supervisor.store.load(task)
    assert read is not None
    assert await rows.fix(read, [seen]) == IndexFix(created=1)
    assert _without_write_ids(await _rows(table)) == _without_write_ids(whole)


async def test_task_that_came_after_its_index_was_read_is_not_touched(
    supervisor: Supervisor, table: TableClient
) -> None:
    """No index row of it was seen, but it is there: nothing is missing, and nothing is reported."""
    await supervisor.store.admit(pending(LINE, TaskId("new")))
    read = await supervisor.store.load(TaskId("new"))
    assert read is not None
    before = await _rows(table)
    assert await supervisor.index_rows.fix(read, ()) == IndexFix()
    assert await _rows(table) == before


async def test_index_row_that_was_deleted_or_replaced_is_not_removed(
    supervisor: Supervisor, table: TableClient
) -> None:
    """Only the exact row that was read is removed."""
    rows = supervisor.index_rows
    await _damage(table, "orphan", wrong=True)
    [seen] = (await rows.indexed(0, after=None, most=1000)).rows
    assert await rows.remove(IndexRow(seen.task, WRONG.format("other"), seen.version)) == IndexFix()
    await table.delete_entity("000", seen.key)
    await _damage(table, "orphan", wrong=True)
    assert await rows.remove(seen) == IndexFix()
    assert list(await _rows(table)) == [seen.key]


async def test_pages_cover_all_rows(supervisor: Supervisor) -> None:
    """Whatever their size: each index row and each task once, tasks beyond any of them, and in its order."""
    tasks = sorted((TaskId(name) for name in ("task", "task-1", "task-10", "Task", "task_1")), key=row_order)
    for task in tasks:
        await supervisor.store.admit(pending(LINE, task))
    rows = supervisor.index_rows
    indexed = await _all(lambda after: rows.indexed(0, after=after, most=3))
    assert sorted(row.key for row in indexed) == sorted(RIGHT.format(task) for task in tasks)
    for number, beyond in enumerate([None, *tasks]):
        found = await _all(lambda after, beyond=beyond: rows.tasks(0, beyond=beyond, after=after, most=2))
        assert [row.task for row in found] == tasks[number:]


async def _all[RowT](read: Callable[..., Awaitable[RowPage[RowT]]]) -> list[RowT]:
    found: list[RowT] = []
    after: str | None = None
    while True:
        page = await read(after)
        found += page.rows
        after = page.continuation
        if after is None:
            return found


def _without_write_ids(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {name: row[name] for name in row if name != "WriteId"} for key, row in rows.items()}
