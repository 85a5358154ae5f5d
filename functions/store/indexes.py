"""The indexes over all tasks: read page by page, and for the full sweep compared with the tasks and fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from azure.core.exceptions import ResourceNotFoundError

from functions.pattern.errors import UnwritableError
from functions.pattern.identity import TaskId
from functions.pattern.index_rows import IndexFix, IndexRow, RowPage, TaskRow
from functions.pattern.records import BY_OPERATOR
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, IndexPage, Stored
from functions.store.connect import table_faults
from functions.store.entities import readable, task_entity, task_of
from functions.store.group_format import Operation
from functions.store.index_entities import index_entity
from functions.store.keys import (
    index_range,
    index_row,
    index_time,
    parked_range,
    search_range,
    shard_key,
    task_row,
)
from functions.store.pages import KEYS_BETWEEN, Page, read_page
from functions.store.shards import Shards
from functions.store.transactions import Committed, ShardWriter, Transaction

#: All that is read of a row.
_COLUMNS = ["RowKey", "OrderID", "Workflow", "WorkflowVersion", "ProcessState", "SubmittedAt"]
_COLUMNS += ["Submitter", "CorrelationID", "Step", "ErrorClass"]

#: Keys of index rows sort before those of tasks, whose ids begin with a letter, a digit, `-` or `_`.
_FIRST_INDEX, _FIRST_TASK = "!", '"'
_BY_OPERATOR = f"{Index.PARKED}|{BY_OPERATOR}|"
_INDEXES = tuple(f"{index}|" for index in Index)


class TableTaskIndex:
    """Reads the index rows that the state store writes."""

    def __init__(self, shards: Shards, figures: StoreFigures) -> None:
        self._shards = shards
        self._figures = figures

    @property
    def shards(self) -> int:
        """Tell how many shards there are; they are numbered from 0."""
        return self._shards.count

    async def page(
        self,
        index: Index,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of one shard in one request; it can be short, or empty, and have another behind it.

        Raises `TransientError`, and `ValueError` when `after` is no continuation.
        """
        return await self._page(_entry, shard, index_range(index, since, until), after, most)

    async def parked(
        self, workflow: str, version: int, shard: int, *, after: str | None, most: int
    ) -> IndexPage:
        """Read a page of the tasks of one shard that wait for a version of a workflow."""
        return await self._page(_entry, shard, parked_range(workflow, version), after, most)

    async def named(self, prefix: str, shard: int, *, after: str | None = None, most: int) -> IndexPage:
        """Read a page of one shard's orders whose ids begin with `prefix`, in their rows' order.

        It takes one request; the page can be short, or empty, and have another behind it.
        """
        only_orders = f"{KEYS_BETWEEN} and Digest gt @nothing"
        return await self._page(_order, shard, (prefix, f"{prefix}~"), after, most, query=only_orders)

    async def found(
        self,
        key: str,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of the tasks of one shard that have a search key, the latest submitted first."""
        return await self._page(_found, shard, search_range(key, since, until), after, most)

    async def _page(
        self,
        read: Callable[[Mapping[str, Any]], IndexEntry],
        shard: int,
        between: tuple[str, str],
        after: str | None,
        most: int,
        *,
        query: str = KEYS_BETWEEN,
    ) -> IndexPage:
        keys = {"partition": shard_key(shard), "first": between[0], "end": between[1], "nothing": ""}
        page = await read_page(
            self._shards.table, self._figures, query, keys, after=after, most=most, select=_COLUMNS
        )
        entries, damaged = readable(read, page.rows)
        return IndexPage(entries, page.continuation, damaged)


class TableIndexRows:
    """Reads rows of the table of the tasks as they lie there, and fixes the index rows."""

    def __init__(self, shards: Shards, figures: StoreFigures) -> None:
        self._shards = shards
        self._figures = figures

    async def indexed(self, shard: int, *, after: str | None, most: int) -> RowPage[IndexRow]:
        """Read a page of a shard's index rows, whatever is wrong with them."""
        query = f"{KEYS_BETWEEN} and OrderID gt @nothing"
        keys = {"first": _FIRST_INDEX, "end": _FIRST_TASK, "nothing": ""}
        page = await self._page(shard, query, keys, after, most)
        rows = tuple(
            _index_row(TaskId(row["OrderID"]), row) for row in page.rows if row["RowKey"].startswith(_INDEXES)
        )
        return RowPage(rows, page.continuation)

    async def tasks(
        self, shard: int, *, beyond: TaskId | None, after: str | None, most: int
    ) -> RowPage[TaskRow]:
        """Read a page of a shard's tasks: orders and steps have no `OrderID`."""
        query = "PartitionKey eq @partition and RowKey gt @beyond and OrderID gt @nothing"
        first = _FIRST_TASK if beyond is None else task_row(beyond)
        page = await self._page(shard, query, {"beyond": first, "nothing": ""}, after, most)
        found = [row for row in page.rows if row["RowKey"] == task_row(row["OrderID"])]
        rows, damaged = readable(_task_row, found)
        return RowPage(rows, page.continuation, damaged)

    async def fix(self, stored: Stored, seen: Sequence[IndexRow]) -> IndexFix | None:
        """Delete those index rows seen that are wrong, and create the right one if it is not there.

        Nothing is done, and None given, unless the task is still as it was read. Its row is written again as
        it is, which makes the transaction conditional on it. Raises `UnwritableError`.
        """
        task = stored.record.task
        right = index_row(task)
        now = [await self._there(row.task, row.key) for row in seen if row.key != right]
        wrong = [row for row in now if row is not None]
        there = await self._there(task.order_id, right)
        missing = there is None or there.damaged
        if not wrong and not missing:
            return IndexFix()
        operations = [Operation("update", task_entity(task, stored.writes), stored.version)]
        operations += [_removal(row) for row in wrong]
        if missing:
            operations.append(Operation("upsert", index_entity(stored.record)))
        transaction = Transaction(task.order_id, tuple(operations))
        with table_faults():
            [result] = await self._writer(task.order_id).commit([transaction])
        if isinstance(result, UnwritableError):
            raise result
        fixed = IndexFix(created=int(missing), deleted=len(wrong))
        return fixed if isinstance(result, Committed) else None

    async def _there(self, task: TaskId, key: str) -> IndexRow | None:
        """Read an index row as it is now; None when it is not there."""
        self._figures.reads += 1
        with table_faults():
            try:
                row = await self._shards.table.get_entity(self._shards.key(task), key, select=_COLUMNS)
            except ResourceNotFoundError:
                return None
        return _index_row(task, row)

    async def remove(self, orphan: IndexRow) -> IndexFix:
        """Delete an index row without a task, if it is still as it was seen."""
        with table_faults():
            deleted = await self._writer(orphan.task).delete(orphan.task, [_removal(orphan)])
        return IndexFix(deleted=int(deleted))

    async def _page(
        self, shard: int, query: str, keys: Mapping[str, str], after: str | None, most: int
    ) -> Page:
        bounds = {"partition": shard_key(shard), **keys}
        return await read_page(self._shards.table, self._figures, query, bounds, after=after, most=most)

    def _writer(self, task: TaskId) -> ShardWriter:
        return ShardWriter(self._shards.groups, self._shards.key(task), self._figures)


def _removal(row: IndexRow) -> Operation:
    return Operation("delete", {"RowKey": row.key}, row.version)


def _entry(row: Mapping[str, Any]) -> IndexEntry:
    entry = _of_row(row, TaskId(row["OrderID"]))
    is_parked = row["RowKey"].startswith(Index.PARKED)
    at = entry.submitted_at if is_parked else index_time(row["RowKey"])
    if at.tzinfo is None:
        raise ValueError("its key has no time")
    by_operator = is_parked and row["RowKey"].startswith(_BY_OPERATOR)
    return replace(entry, at=at, state=ProcessState(row["ProcessState"]), parked_by_operator=by_operator)


def _order(row: Mapping[str, Any]) -> IndexEntry:
    return _of_row(row, TaskId(row["RowKey"].partition("|")[0]))


def _found(row: Mapping[str, Any]) -> IndexEntry:
    return _of_row(row, TaskId(row["RowKey"].rpartition("|")[2]))


def _of_row(row: Mapping[str, Any], task: TaskId) -> IndexEntry:
    submitted_at, workflow, version = row["SubmittedAt"], row["Workflow"], row["WorkflowVersion"]
    is_right = isinstance(submitted_at, datetime) and isinstance(workflow, str) and isinstance(version, int)
    if not is_right or not isinstance(row["Submitter"], str):
        raise ValueError("a column has not what an index row has")
    return IndexEntry(
        task=task,
        at=submitted_at,
        workflow=workflow,
        state=None,
        submitted_at=submitted_at,
        version=version,
        submitter=row["Submitter"],
        correlation_id=row.get("CorrelationID"),
        step=row.get("Step"),
        error=row.get("ErrorClass"),
    )


def _index_row(task: TaskId, row: Any) -> IndexRow:
    """Read what lies there, whatever is wrong with it; what has no task's id is known by its key only."""
    _, damaged = readable(_entry, [row])
    return IndexRow(task, row["RowKey"], str(row.metadata["etag"]), bool(damaged))


def _task_row(row: Mapping[str, Any]) -> TaskRow:
    return TaskRow(TaskId(row["OrderID"]), index_row(task_of(row)))
