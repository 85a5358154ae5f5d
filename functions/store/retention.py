"""The deletion of what was kept for its time: finished tasks, and old rows of other tables."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from itertools import batched
from typing import Any

from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Stored
from functions.store.connect import table_faults
from functions.store.group_format import Operation
from functions.store.keys import index_row, rows_of, search_row, task_row
from functions.store.pages import KEYS_BETWEEN
from functions.store.shards import Shards
from functions.store.transactions import MOST_OPERATIONS, ShardWriter

#: Old rows that are deleted side by side.
_AT_A_TIME = 20


async def delete_old_rows(
    table: TableClient, query: str, before: datetime | str, most: int, **others: str
) -> int:
    """Delete up to `most` rows that `query` finds by `@before`; give how many. Raises `TransientError`.

    `others` are further parameters of the query.
    """
    parameters = {"before": before, **others}
    keys: dict[str, Any] = {"parameters": parameters, "select": ["PartitionKey", "RowKey"]}
    old: list[Mapping[str, Any]] = []
    with table_faults():
        async for row in table.query_entities(query, **keys):
            if len(old) == most:
                break
            old.append(row)
        for some in batched(old, _AT_A_TIME, strict=False):
            await asyncio.gather(*(table.delete_entity(row["PartitionKey"], row["RowKey"]) for row in some))
    return len(old)


class TableTaskRetention:
    """Deletes the rows of finished tasks, except announcements still to be sent: sending deletes those."""

    def __init__(self, shards: Shards, figures: StoreFigures) -> None:
        self._shards = shards
        self._figures = figures

    async def delete(self, stored: Stored) -> bool:
        """Delete a task's rows; tell whether they were there and as expected. Raises `TransientError`.

        What makes it a task goes last, in one transaction: a reader sees the task or no task, and after a
        crash in between, the next run finds it.
        """
        with table_faults():
            return await self._delete(stored)

    async def _delete(self, stored: Stored) -> bool:
        task = stored.record.task
        writer = ShardWriter(self._shards.groups, self._shards.key(task.order_id), self._figures)
        keys = await self._keys(task.order_id)
        past = [key for key in keys if key.split("|")[1] in {"epoch", "lost"}]
        for some in batched(past, MOST_OPERATIONS, strict=False):
            deletions = [Operation("delete", {"RowKey": key}) for key in some]
            if not await writer.delete(task.order_id, deletions):
                return False
        own = task_row(task.order_id)
        others = [*(key for key in keys if key not in past and key != own), index_row(task)]
        order = stored.record.order
        others += (search_row(key, order.submitted_at, task.order_id) for key in order.search_keys)
        deletions = [Operation("delete", {"RowKey": key}) for key in others]
        deletions.append(Operation("delete", {"RowKey": own}, stored.version))
        return await writer.delete(task.order_id, deletions)

    async def _keys(self, task: TaskId) -> list[str]:
        first, end = rows_of(task)
        self._figures.reads += 1
        bounds = {"partition": self._shards.key(task), "first": first, "end": end}
        rows = self._shards.table.query_entities(KEYS_BETWEEN, parameters=bounds, select=["RowKey"])
        return [row["RowKey"] async for row in rows]
