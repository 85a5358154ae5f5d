"""Table `Rejected`: messages that could not be understood, kept with the reason."""

from __future__ import annotations

import hashlib
from datetime import datetime

from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.ports import Clock
from functions.store.faults import table_faults

#: A property holds at most 64 KiB; the start of a message is enough to recognise it by.
_MOST_BODY_BYTES = 32 * 1024
_MOST_REASON_CHARACTERS = 4_000


class TableRejectedMessages:
    """Keeps rejected messages, partitioned by the queue they came from."""

    def __init__(self, table: TableClient, *, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def reject(self, queue: str, message_id: str, body: bytes, reason: str) -> None:
        """Keep the message; when it is delivered again, the row is written again, not a second one."""
        name = hashlib.sha256(message_id.encode() + b"\0" + body).hexdigest()
        row = {
            "PartitionKey": queue.replace("/", "|"),
            "RowKey": name,
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
