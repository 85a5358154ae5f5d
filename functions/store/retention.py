"""Deletes what is past its retention: finished tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import batched
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import TableTransactionError
from azure.data.tables.aio import TableClient

from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Stored
from functions.store.faults import table_faults
from functions.store.keys import index_row, rows_of, shard_of, task_row

#: Operations that an entity group transaction takes (Table Storage).
_MOST_OPERATIONS = 100
_CONFLICTS = frozenset({404, 409, 412})

#: One row's deletion, as the SDK takes it.
_Deletion = tuple[str, dict[str, str], dict[str, Any]]


class TableTaskRetention:
    """Deletes the rows of finished tasks, but for unsent announcements: those go when they are sent."""

    def __init__(self, table: TableClient, *, shards: int, figures: StoreFigures) -> None:
        self._table = table
        self._shards = shards
        self._figures = figures

    async def delete(self, stored: Stored) -> bool:
        """Delete a task's rows and its index row; tell whether they were there and as expected.

        Its past epochs, lost messages and marks of what was sent go first, then what makes it a task, in
        one transaction: a reader sees the task or no task, and after a crash between, the next run finds
        it. Raises `TransientError`.
        """
        shard = shard_of(stored.record.order.task, self._shards)
        with table_faults():
            keys = await self._keys(shard, stored)
            core = [key for key in keys if not _is_past(key)]
            past = [key for key in keys if _is_past(key)]
            try:
                for some in batched(past, _MOST_OPERATIONS, strict=False):
                    await self._commit([_deletion(shard, key) for key in some])
                await self._commit(_core_deletions(shard, core, stored))
            except TableTransactionError as error:
                if error.status_code in _CONFLICTS:
                    return False
                raise
        return True

    async def _keys(self, shard: str, stored: Stored) -> list[str]:
        first, end = rows_of(stored.record.order.task)
        self._figures.reads += 1
        rows = self._table.query_entities(
            "PartitionKey eq @shard and RowKey ge @first and RowKey lt @end",
            parameters={"shard": shard, "first": first, "end": end},
            select=["RowKey"],
        )
        return [row["RowKey"] async for row in rows]

    async def _commit(self, deletions: Sequence[_Deletion]) -> None:
        self._figures.transactions += 1
        self._figures.operations += len(deletions)
        await self._table.submit_transaction(deletions)


def _is_past(key: str) -> bool:
    return key.split("|")[1] in {"epoch", "lost", "sent"}


def _core_deletions(shard: str, keys: Sequence[str], stored: Stored) -> list[_Deletion]:
    """Delete the task's row only as it was read, and with it the others."""
    task = stored.record.task
    unchanged = {"etag": stored.version, "match_condition": MatchConditions.IfNotModified}
    return [
        _deletion(shard, task_row(task.order_id), **unchanged),
        *(_deletion(shard, key) for key in keys if key != task_row(task.order_id)),
        _deletion(shard, index_row(task)),
    ]


def _deletion(shard: str, row: str, **options: Any) -> _Deletion:
    return "delete", {"PartitionKey": shard, "RowKey": row}, options
