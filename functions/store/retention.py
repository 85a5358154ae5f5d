"""What is kept for a limited time: finished tasks, and messages that could not be understood."""

from __future__ import annotations

import hashlib
from datetime import datetime
from itertools import batched

from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Stored
from functions.store.connect import table_faults
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import Operation
from functions.store.keys import index_row, rows_of, shard_of, task_row
from functions.store.pages import KEYS_BETWEEN
from functions.store.transactions import MOST_OPERATIONS, ShardWriter

#: A property holds at most 64 KiB; the start of a message is enough to recognise it by.
_MOST_BODY_BYTES = 32 * 1024
_MOST_REASON_CHARACTERS = 4_000


class TableTaskRetention:
    """Deletes the rows of finished tasks, except announcements still to be sent: sending deletes those."""

    def __init__(
        self, table: TableClient, groups: EntityGroups, *, shards: int, figures: StoreFigures
    ) -> None:
        self._table = table
        self._groups = groups
        self._shards = shards
        self._figures = figures

    async def delete(self, stored: Stored) -> bool:
        """Delete a task's rows; tell whether they were there and as expected. Raises `TransientError`.

        What makes it a task goes last, in one transaction: a reader sees the task or no task, and after a
        crash in between, the next run finds it.
        """
        task = stored.record.task
        shard = shard_of(task.order_id, self._shards)
        writer = ShardWriter(self._groups, shard, self._figures)
        with table_faults():
            keys = await self._keys(shard, task.order_id)
            past = [key for key in keys if key.split("|")[1] in {"epoch", "lost"}]
            for some in batched(past, MOST_OPERATIONS, strict=False):
                deletions = [Operation("delete", {"RowKey": key}) for key in some]
                if not await writer.delete(task.order_id, deletions):
                    return False
            own = task_row(task.order_id)
            others = [*(key for key in keys if key not in past and key != own), index_row(task)]
            deletions = [Operation("delete", {"RowKey": key}) for key in others]
            deletions.append(Operation("delete", {"RowKey": own}, stored.version))
            return await writer.delete(task.order_id, deletions)

    async def _keys(self, shard: str, task: TaskId) -> list[str]:
        first, end = rows_of(task)
        self._figures.reads += 1
        bounds = {"partition": shard, "first": first, "end": end}
        rows = self._table.query_entities(KEYS_BETWEEN, parameters=bounds, select=["RowKey"])
        return [row["RowKey"] async for row in rows]


class TableRejectedMessages:
    """Keeps messages that could not be understood, partitioned by the queue they came from."""

    def __init__(self, table: TableClient, *, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def reject(self, queue: str, message_id: str, body: bytes, reason: str) -> None:
        """Record the message; when it is delivered again, its row is replaced."""
        row = {
            "PartitionKey": queue.replace("/", "|"),
            "RowKey": hashlib.sha256(message_id.encode() + b"\0" + body).hexdigest(),
            "SchemaVersion": 1,
            "MessageID": message_id[:128],
            "Body": body[:_MOST_BODY_BYTES],
            "BodyBytes": len(body),
            "Reason": reason[:_MOST_REASON_CHARACTERS],
            "RejectedAt": self._clock.now(),
        }
        with table_faults():
            await self._table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` messages rejected before that time; tell how many. Raises `TransientError`."""
        deleted = 0
        rows = self._table.query_entities(
            "RejectedAt lt @before", parameters={"before": before}, select=["PartitionKey", "RowKey"]
        )
        with table_faults():
            async for row in rows:
                if deleted == most:
                    break
                await self._table.delete_entity(row["PartitionKey"], row["RowKey"])
                deleted += 1
        return deleted
