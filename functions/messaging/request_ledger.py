"""The table of the requests of Agents that must not be repeated. Times are UTC."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json

from functions.messaging.agent_messages import AgentReply, AgentRequest, ReplyOutcome, reply_to
from functions.storage.index_pages import KEYS, read_entries
from functions.storage.record_rows import decoded
from functions.storage.table_contract import (
    RefusedChanges,
    Row,
    RowChange,
    RowQuery,
    Table,
    TransientStorageError,
    delete_rows,
    write,
)

_log = logging.getLogger(__name__)

#: The time after which a delivery that did not renew its lease counts as ended.
_LEASE = timedelta(seconds=20)
#: The first digit of the digest of the start id.
_PARTITIONS = "0123456789abcdef"


class Begin(Enum):
    """A request without a reply: this delivery must carry it out (`FIRST`), or another one does (`BUSY`)."""

    FIRST = "first"
    BUSY = "busy"


class RequestLedger:
    """The table of the requests that must not be repeated: a row for each start id, under its digest.

    A second row, by the day of the deadline, is for the deletion of old requests. The methods raise
    `StorageError`, for a corrupt row, too.
    """

    def __init__(self, table: Table, now: Callable[[], datetime]) -> None:
        self._table, self._now = table, now

    async def begin(
        self, request: AgentRequest, delivery: str, late: AgentReply | None
    ) -> AgentReply | Begin:
        """Record that a delivery begins a request; a repeat is harmless.

        After the begin of another delivery, return the recorded reply; without one, `Begin.BUSY` or the reply
        that the outcome is unknown. With the reply to a `late` request, no delivery ever begins it.
        """
        partition, key = _place_of(request)
        row, day = self._row(request, delivery, late), f"!{request.complete_by:%Y%m%d}|{key}"
        row = {**row, **self._lease()}
        changes = [RowChange("insert", key, row), RowChange("insert", day, {})]
        answer = await self._table.send(partition, changes)
        if not isinstance(answer, RefusedChanges):
            return Begin.FIRST if late is None else late
        found = await self._table.read(partition, key) if answer.is_conflict else None
        if found is None:
            raise TransientStorageError(f"request {key}: HTTP {answer.status} {answer.text}")
        reply = decoded(key, partial(_recorded_reply, request, found))
        if reply is not None:
            return reply
        if found.get("Delivery") == delivery:  # the answer to its insertion was lost
            return Begin.FIRST
        if self._now() < decoded(key, lambda: datetime.fromisoformat(found["LivesUntil"])):
            return Begin.BUSY
        reason = "begun by an earlier delivery, which recorded no outcome; not sent again"
        _log.warning("task %s step %s: %s", request.task_id, request.step, reason)
        return reply_to(request, ReplyOutcome.UNKNOWN, error=reason)

    async def renew(self, request: AgentRequest) -> None:
        """Record that the delivery that carries out a request lives. It must do so every few seconds."""
        partition, key = _place_of(request)
        await write(self._table, partition, [RowChange("merge", key, self._lease())])

    async def record(self, request: AgentRequest, delivery: str, reply: AgentReply) -> None:
        """Record the reply to a request that a delivery has begun."""
        partition, key = _place_of(request)
        change = RowChange("upsert", key, self._row(request, delivery, reply))
        await write(self._table, partition, [change])

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete at most `most` requests whose deadlines were on earlier days; return their number."""
        deleted = 0
        for partition in _PARTITIONS:
            query = RowQuery("!", f"!{before:%Y%m%d}", columns=KEYS, most=min(most - deleted, 1000))
            page = await read_entries(self._table, partition, query, lambda row: str(row["RowKey"]))
            keys = [(day_key, day_key.partition("|")[2]) for day_key in page.entries]
            deleted += await delete_rows(self._table, partition, keys)
            if deleted == most:
                break
        return deleted

    def _lease(self) -> Row:
        return {"LivesUntil": (self._now() + _LEASE).isoformat()}

    def _row(self, request: AgentRequest, delivery: str, reply: AgentReply | None) -> Row:
        row: dict[str, Any] = {
            "Delivery": delivery,
            "Task": request.task_id,
            "Step": request.step,
            "Epoch": request.epoch,
            "ChangedAt": self._now(),
            "CompleteBy": request.complete_by,
        }
        if reply is not None:
            row["Reply"] = reply.model_dump_json(exclude={"start_id"}, exclude_defaults=True)
        return row


def _place_of(request: AgentRequest) -> tuple[str, str]:
    """Return partition and key. The start id is a secret, so that the key is its digest."""
    digest = hashlib.sha256(request.start_id.encode()).hexdigest()
    return digest[0], digest


def _recorded_reply(request: AgentRequest, row: Row) -> AgentReply | None:
    if row.get("Reply") is None:
        return None
    fields = {**from_json(row["Reply"]), "start_id": request.start_id}
    return AgentReply.model_validate_json(to_json(fields))
