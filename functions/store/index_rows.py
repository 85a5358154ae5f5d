"""All tasks and their index rows, for the full sweep to compare and fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from azure.data.tables import TableTransactionError
from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import (
    Index,
    IndexFix,
    IndexRow,
    RowPage,
    Stored,
    TaskRow,
)
from functions.store.connect import table_faults
from functions.store.entities import index_entity, task_entity, task_of
from functions.store.keys import index_row, shard_key, shard_of, task_row
from functions.store.pages import read_page
from functions.store.transactions import Committed, Operation, ShardWriter, Transaction

_INDEXES = tuple(f"{index}|" for index in Index)


class TableIndexRows:
    """Reads rows of the table of the tasks as they lie there, and fixes the index rows."""

    def __init__(
        self, table: TableClient, *, shards: int, new_id: Callable[[], str], figures: StoreFigures
    ) -> None:
        self._table = table
        self._shards = shards
        self._new_id = new_id
        self._figures = figures

    @property
    def shards(self) -> int:
        """Tell how many shards there are; they are numbered from 0."""
        return self._shards

    async def page(self, shard: int, *, after: str | None, most: int) -> RowPage:
        """Read a page of a shard: index rows sort before tasks, and orders and steps have no `OrderID`."""
        self._figures.reads += 1
        rows = self._table.query_entities(
            "PartitionKey eq @shard and OrderID gt @nothing",
            parameters={"shard": shard_key(shard), "nothing": ""},
            results_per_page=most,
        )
        with table_faults():
            page = await read_page(rows, after)
        return RowPage(
            index_rows=tuple(_index_row(row) for row in page.rows if row["RowKey"].startswith(_INDEXES)),
            task_rows=tuple(_task_row(row) for row in page.rows if row["RowKey"] == task_row(row["OrderID"])),
            continuation=page.continuation,
        )

    async def fix(self, stored: Stored, seen: Sequence[IndexRow]) -> IndexFix:
        """Leave the task the one index row it must have, if it and the rows are as they were read.

        The task's row is written again as it is, which makes the transaction conditional on it.
        """
        task = stored.record.task
        right = index_row(task)
        wrong = [row for row in seen if row.key != right]
        missing = len(wrong) == len(seen)
        if not wrong and not missing:
            return IndexFix()
        operations = [Operation("update", task_entity(task, self._new_id()), stored.version)]
        operations += [_removal(row) for row in wrong]
        if missing:
            operations.append(Operation("create", index_entity(stored.record)))
        done = await self._commit(task.order_id, operations)
        return IndexFix(created=int(missing), deleted=len(wrong)) if done else IndexFix()

    async def remove(self, orphan: IndexRow) -> IndexFix:
        """Delete an index row without a task, if it is still as it was seen."""
        removal = _removal(orphan)
        removal.entity["PartitionKey"] = shard_of(orphan.task, self._shards)
        self._figures.transactions += 1
        self._figures.operations += 1
        with table_faults():
            try:
                await self._table.submit_transaction([removal.wire()])
            except TableTransactionError as refused:
                if refused.status_code in {HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED}:
                    return IndexFix()
                raise
        return IndexFix(deleted=1)

    async def _commit(self, task: TaskId, operations: Sequence[Operation]) -> bool:
        writer = ShardWriter(self._table, shard_of(task, self._shards), self._figures)
        with table_faults():
            [result] = await writer.commit([Transaction(task, tuple(operations))])
        return isinstance(result, Committed)


def _removal(row: IndexRow) -> Operation:
    return Operation("delete", {"RowKey": row.key}, row.version)


def _index_row(row: Any) -> IndexRow:
    return IndexRow(TaskId(row["OrderID"]), row["RowKey"], str(row.metadata["etag"]))


def _task_row(row: Mapping[str, Any]) -> TaskRow:
    return TaskRow(TaskId(row["OrderID"]), index_row(task_of(row)))
