"""The table `Rejected`: messages that were not processed, complete, so that operators can send them again.

Each message has a row whose key begins with its time, the newest first, a row `!known|` by its content, and a
row `!task|` if its task is known. One transaction writes all three. A discarded message has one row without
its body. Times are UTC.

Dead letters, and messages that failed too often, are recorded there, too. No function handles them any more.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import batched
from typing import Any

from pydantic import AwareDatetime, TypeAdapter
from pydantic_core import from_json

from functions.core.json_values import bounded
from functions.messaging.message_format import (
    STEP_PATTERN,
    TASK_ID_PATTERN,
    QueueMessage,
    digest_of,
    each_order,
)
from functions.messaging.queue_names import OPERATOR_ALERTS_QUEUE, dead_letter_queue
from functions.messaging.received_messages import DeliveryCounts, copy_of
from functions.storage.index_pages import KEYS, every_page
from functions.storage.record_rows import decoded, joined, split
from functions.storage.row_keys import newest_first, with_prefix
from functions.storage.table_contract import (
    CorruptRowError,
    RefusedChanges,
    Row,
    RowChange,
    RowQuery,
    StorageError,
    Table,
    TransientStorageError,
)

REJECTED_TABLE = "Rejected"

#: One partition, because one transaction replaces a message by the row of the discarded one.
_PARTITION = "rejected"
_KNOWN, _TASK, _DISCARDED = "!known|", "!task|", "!discarded|"
#: The character after `9`: keys start with the digits of a time.
_AFTER_DIGITS = ":"
#: Bytes of a body: as Base64 in UTF-16, it takes 700 KiB of the 1 MiB of a row.
_MOST_BODY_BYTES = 256 * 1024
_MOST_LABELS_CHARACTERS = 64 * 1024
_MOST_REASON_BYTES, _MOST_ID_BYTES = 4_096, 128
#: Pages of 1,000 rows that one list reads, or more until it has found a message.
_MOST_PAGES = 20
_MOST_TRIES = 3
_DELETED_AT_ONCE = 20
_COLUMNS = (*KEYS, "Facts")
#: The properties in which Service Bus says why a message is a dead letter.
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMessage:
    """A message that was not processed: its queue, id and size in bytes, the reason, and its task if known.

    It can be sent again if it is kept `whole`. `resends` counts how often operators did; the other fields are
    of the latest time, and `resent_as` is its id then. A discarded message has no body.
    """

    id: str
    queue: str
    message_id: str
    size: int
    whole: bool
    reason: str
    rejected_at: AwareDatetime
    task: str | None = None
    step: str | None = None
    resends: int = 0
    resent_by: str | None = None
    resent_why: str | None = None
    resent_at: AwareDatetime | None = None
    resent_as: str | None = None
    discarded_by: str | None = None
    discarded_why: str | None = None
    discarded_at: AwareDatetime | None = None


@dataclass(frozen=True, slots=True)
class RejectedList:
    """Rejected messages, the newest first. `more` is true if further rows were not read."""

    messages: Sequence[RejectedMessage]
    more: bool


class ConcurrentActionError(Exception):
    """Another operator sent the message again, or discarded it, at this moment."""


_FACTS, _LABELS = TypeAdapter(RejectedMessage), TypeAdapter(QueueMessage)


class RejectedMessages:
    """The rejected messages. Its methods raise `StorageError`. `now` returns the time."""

    def __init__(self, table: Table, now: Callable[[], datetime]) -> None:
        self._table, self._now = table, now

    async def reject(
        self,
        queue: str,
        message: QueueMessage,
        reason: str,
        *,
        task: str | None = None,
        step: str | None = None,
    ) -> None:
        """Record a message of a queue. A message that is recorded already stays as it is."""
        at = self._now()
        labels = _LABELS.dump_json(message, exclude={"message_id", "body"}).decode()
        is_complete = len(message.body) <= _MOST_BODY_BYTES and len(labels) <= _MOST_LABELS_CHARACTERS
        rejected = RejectedMessage(
            id=f"{newest_first(at)}-{_digest(queue, message, task)}",
            queue=queue,
            message_id=bounded(message.message_id, _MOST_ID_BYTES),
            size=len(message.body),
            whole=is_complete,
            reason=bounded(reason, _MOST_REASON_BYTES),
            rejected_at=at,
            task=task,
            step=step,
        )
        row = {
            **_columns(rejected),
            **split("Body", base64.b64encode(message.body[:_MOST_BODY_BYTES]).decode()),
            **split("Labels", labels if is_complete else "{}"),
        }
        changes = [RowChange("insert", key, {"MessageKey": rejected.id}) for key in _other_keys(rejected)]
        result = await self._table.send(_PARTITION, [*changes, RowChange("insert", rejected.id, row)])
        if isinstance(result, RefusedChanges) and not result.is_conflict:
            raise StorageError(f"message {rejected.message_id} cannot be recorded: {result.text}")

    async def listed(
        self,
        queues: Collection[str],
        most: int,
        *,
        until: datetime | None = None,
        discarded: bool = False,
    ) -> RejectedList:
        """Return the newest `most` messages of some queues (none: of all) that were rejected until a time."""
        start = _DISCARDED if discarded else ""
        first = "0" if until is None else newest_first(until)
        query = RowQuery(f"{start}{first}", f"{start}{_AFTER_DIGITS}", columns=_COLUMNS)
        found: list[RejectedMessage] = []
        pages = 0
        async for page in every_page(self._table, _PARTITION, query):
            pages += 1
            found += (each for each in _readable(page.rows) if not queues or each.queue in queues)
            if len(found) > most or (
                len(found) > 1 and pages >= _MOST_PAGES and page.continuation is not None
            ):
                return RejectedList(found[:most], more=True)
        return RejectedList(found, more=False)

    async def of_task(self, task: str, most: int) -> RejectedList:
        """Return the newest `most` messages that name a task."""
        query = replace(with_prefix(f"{_TASK}{task}|"), most=most + 1)
        keys: list[str] = []
        async for page in every_page(self._table, _PARTITION, query):
            keys += (str(row["MessageKey"]) for row in page.rows if "MessageKey" in row)
            if len(keys) > most:
                break
        rows = await asyncio.gather(*(self._table.read(_PARTITION, key) for key in keys[:most]))
        return RejectedList(list(_readable(row for row in rows if row is not None)), more=len(keys) > most)

    async def read(self, message_id: str) -> tuple[RejectedMessage, bytes] | None:
        """Return a message by its id, and the recorded part of its body; None if there is none."""
        row = await self._table.read(_PARTITION, message_id)
        return None if row is None else (_message(row), _body(row))

    async def resend(
        self, message_id: str, who: str, reason: str
    ) -> tuple[RejectedMessage, QueueMessage | None] | None:
        """Record that a message is sent again, and return it with the copy to be sent; None if there is none.

        A message that is not complete has no copy. Raises `ConcurrentActionError`.
        """
        row = await self._table.read(_PARTITION, message_id)
        if row is None:
            return None
        known = _message(row)
        if not known.whole:
            return known, None
        number = known.resends + 1
        original = _original(row, known.message_id)
        copy = copy_of(original, DeliveryCounts(), number)  # the cause of its failures was repaired
        resent = replace(
            known,
            resends=number,
            resent_by=who,
            resent_why=reason,
            resent_at=self._now(),
            resent_as=copy.message_id,
        )
        kept = {name: each for name, each in row.items() if name.partition("_")[0] in {"Body", "Labels"}}
        change = RowChange("update", message_id, {**kept, **_columns(resent)}, str(row["odata.etag"]))
        result = await self._table.send(_PARTITION, [change])
        if isinstance(result, RefusedChanges) and not await self._is_written(message_id, resent):
            raise ConcurrentActionError(message_id)
        return resent, copy

    async def discard(self, message_id: str, who: str, reason: str) -> RejectedMessage | None:
        """Delete the body of a message and keep all other facts; None if there is no such message.

        Another operator may send it again at the same moment.
        """
        for _ in range(_MOST_TRIES):
            row = await self._table.read(_PARTITION, message_id)
            if row is None:
                return None
            known = _message(row)
            discarded = replace(known, discarded_by=who, discarded_why=reason, discarded_at=self._now())
            key = f"{_DISCARDED}{message_id}"
            changes = [
                RowChange("delete", message_id, etag=str(row["odata.etag"])),
                *(RowChange("delete", each) for each in _other_keys(known)),
                RowChange("insert", key, _columns(discarded)),
            ]
            result = await self._table.send(_PARTITION, changes)
            if not isinstance(result, RefusedChanges) or await self._is_written(key, discarded):
                return discarded
        raise TransientStorageError(f"message {message_id}: other operators change it at this moment")

    async def _is_written(self, key: str, message: RejectedMessage) -> bool:
        """Return whether a write took place and only its answer was lost."""
        row = await self._table.read(_PARTITION, key)
        return row is not None and _message(row) == message

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete at most `most` messages that were rejected or discarded before a time; return the number."""
        old: list[list[str]] = []
        for start in ("", _DISCARDED):
            first = f"{start}{newest_first(before)}~"  # messages of this time itself are kept
            query = RowQuery(first, f"{start}{_AFTER_DIGITS}", columns=_COLUMNS)
            async for page in every_page(self._table, _PARTITION, query):
                old += (keys for row in page.rows if (keys := _old_keys(row, before)))
                if len(old) >= most:
                    break
        deleted = 0
        for some in batched(old[:most], _DELETED_AT_ONCE, strict=False):
            changes = ([RowChange("delete", key) for key in keys] for keys in some)
            results = await asyncio.gather(*(self._table.send(_PARTITION, each) for each in changes))
            deleted += sum(not isinstance(each, RefusedChanges) for each in results)
        return deleted


def _digest(queue: str, message: QueueMessage, task: str | None) -> str:
    """Return the digest of a message, which is the same when it is delivered again."""
    name = message.message_id.encode(errors="replace")
    return digest_of(queue.encode(), name, message.body, (task or "").encode())


def _other_keys(message: RejectedMessage) -> list[str]:
    """Return the keys of the rows that refer to a message."""
    keys = [f"{_KNOWN}{message.id.partition('-')[2]}"]
    return keys if message.task is None else [*keys, f"{_TASK}{message.task}|{message.id}"]


def _old_keys(row: Row, before: datetime) -> list[str]:
    """Return the keys of all rows of a message, or none if it was discarded after a time."""
    key = str(row["RowKey"])
    try:
        message = _message(row)
    except CorruptRowError:
        return [key]
    if key.startswith(_DISCARDED):
        is_old = message.discarded_at is None or message.discarded_at < before
        return [key] if is_old else []
    return [key, *_other_keys(message)]


def _body(row: Row) -> bytes:
    return decoded(str(row["RowKey"]), lambda: base64.b64decode(joined(row, "Body") or "", validate=True))


def _original(row: Row, message_id: str) -> QueueMessage:
    """Return a complete message as it was received."""
    body = _body(row)

    def decode() -> QueueMessage:
        return QueueMessage(message_id=message_id, body=body, **from_json(joined(row, "Labels") or ""))

    return decoded(str(row["RowKey"]), decode)


def _columns(message: RejectedMessage) -> dict[str, Any]:
    return {"Facts": _FACTS.dump_json(message, exclude_defaults=True).decode()}


def _message(row: Row) -> RejectedMessage:
    """Return the facts of a message from its row. Raises `CorruptRowError`."""
    return decoded(str(row["RowKey"]), lambda: _FACTS.validate_json(row["Facts"]))


def _readable(rows: Iterable[Row]) -> Iterator[RejectedMessage]:
    """Return the messages of rows that can be decoded."""
    for row in rows:
        try:
            yield _message(row)
        except CorruptRowError:
            continue


def named_task(body: bytes) -> tuple[str | None, str | None]:
    """Return the ids of the task and of the step that a message names. The body may be anything."""
    try:
        content = json.loads(body, parse_int=float)  # an integer may have more digits than Python converts
    except (ValueError, RecursionError):
        return None, None
    content = content if isinstance(content, dict) else {}
    task = next((content[name] for name in ("task_id", "task", "id") if name in content), None)
    step = content.get("step")
    return (
        task if isinstance(task, str) and re.fullmatch(TASK_ID_PATTERN, task) else None,
        step if isinstance(step, str) and re.fullmatch(STEP_PATTERN, step) else None,
    )


@dataclass(frozen=True, slots=True)
class LostMessage:
    """A message that no function handles any more, with the reason. `task` is the task that it names."""

    queue: str
    message_id: str
    task: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class LostMessages:
    """Records, logs and alerts messages that are lost. A repetition is recorded once, and alerted again."""

    rejected: RejectedMessages
    alert: Callable[[LostMessage], Awaitable[None]]

    async def take(self, queue: str, message: QueueMessage) -> None:
        """Handle a dead letter of a queue, each of its orders separately. Raises `StorageError`."""
        texts = (message.properties.get(name) for name in (_REASON, _DESCRIPTION))
        reason = ": ".join(str(text) for text in texts if text) or "no reason given"
        lost = (self.lose(queue, each, reason) for each in each_order(message))
        results = await asyncio.gather(*lost, return_exceptions=True)
        for error in filter(None, results):
            raise error

    async def lose(self, queue: str, message: QueueMessage, reason: str) -> None:
        """Record a lost message with the task that it names, and alert it unless it is an alert.

        Raises `StorageError`; nothing is alerted then.
        """
        reason = bounded(reason)
        task, step = named_task(message.body)
        properties = {**message.properties}
        properties.pop(_REASON, None)
        properties.pop(_DESCRIPTION, None)
        complete = replace(message, properties=properties)
        await self.rejected.reject(dead_letter_queue(queue), complete, reason, task=task, step=step)
        lost = LostMessage(queue, message.message_id, task, reason)
        _log.error("message lost %s", json.dumps(asdict(lost)))
        if queue != OPERATOR_ALERTS_QUEUE:
            await self.alert(lost)
