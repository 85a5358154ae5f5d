"""Messages that were not processed: each is kept whole in a row, so that it can be sent again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableEntity, UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.rejected import (
    NOTHING_KNOWN,
    About,
    Content,
    Labels,
    Place,
    RejectedMessage,
    RejectedPage,
    SentByAnotherError,
)
from functions.pattern.request_figures import StoreFigures
from functions.pattern.texts import bounded
from functions.store.connect import table_faults
from functions.store.entities import readable
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, Operation
from functions.store.pages import KEYS_BETWEEN, read_page
from functions.store.retention import delete_old_rows

REJECTED_TABLE = "Rejected"

#: One partition, so that one transaction replaces a message by the row of a discarded one. Ids begin with a
#: letter, a digit, `-` or `_`.
_PARTITION = "rejected"
_DISCARDED = "!discarded|"
_KEPT_ROWS = ('"', "~")
_DISCARDED_ROWS = (_DISCARDED, "!discarded}")

#: A property holds at most 64 KiB, and a row 1 MiB; a message of a queue has at most 256 KiB.
_PART_BYTES = 60 * 1024
_MOST_BODY_BYTES = 10 * _PART_BYTES
_MOST_REASON_BYTES = 4 * 1024

#: The columns of the fields of `RejectedMessage`; the second part is absent before the action.
_FIELDS = {"queue": "Queue", "message_id": "MessageID", "size": "BodyBytes", "whole": "Whole"} | {
    "reason": "Reason",
    "rejected_at": "RejectedAt",
    "resends": "Resends",
}
_ACTIONS = {
    f"{done}_{what}": f"{done.title()}{what.title()}"
    for done in ("resent", "discarded")
    for what in ("by", "why", "at")
}
_COLUMNS = ["RowKey", "Task", "Step", "Agent", *_FIELDS.values(), *_ACTIONS.values()]


class TableRejectedMessages:
    """The table of rejected messages. Its methods raise `TransientError`."""

    def __init__(
        self, table: TableClient, groups: EntityGroups, *, clock: Clock, figures: StoreFigures
    ) -> None:
        self._table = table
        self._groups = groups
        self._clock = clock
        self._figures = figures

    async def reject(
        self,
        queue: str,
        message_id: str,
        body: bytes,
        reason: str,
        labels: Labels | None = None,
        *,
        about: About = NOTHING_KNOWN,
    ) -> None:
        """Record the message; when it is delivered again, its row stays as it is."""
        carried = json.dumps(asdict(labels or Labels())).encode()
        parts = range(0, max(1, min(len(body), _MOST_BODY_BYTES)), _PART_BYTES)
        row = {
            "PartitionKey": _PARTITION,
            "RowKey": _id(queue, message_id, body, about.task),
            "SchemaVersion": 1,
            "Queue": queue,
            "MessageID": message_id[:128],
            "BodyBytes": len(body),
            "Whole": len(body) <= _MOST_BODY_BYTES and len(carried) <= _PART_BYTES,
            "Labels": carried[:_PART_BYTES],
            "Reason": bounded(reason, _MOST_REASON_BYTES),
            "RejectedAt": self._clock.now(),
            "Resends": 0,
            "Task": about.task,
            "Step": about.step,
            "Agent": about.agent,
            **{f"Body{n}": body[start : start + _PART_BYTES] for n, start in enumerate(parts)},
        }
        with table_faults():
            try:
                await self._table.create_entity(row)
            except ResourceExistsError:
                return

    async def listed(
        self,
        *,
        queues: Sequence[str],
        most: int,
        after: Place | None = None,
        until: datetime | None = None,
        discarded: bool = False,
    ) -> RejectedPage:
        """Read up to 5,000 rows, and return a page of the latest."""
        names = {f"q{number}": queue for number, queue in enumerate(queues)}
        wanted = " or ".join(f"Queue eq @q{number}" for number in range(len(queues)))
        # The client separates parameters by spaces, also before a bracket.
        query = KEYS_BETWEEN + (f" and ( {wanted} )" if wanted else "")
        first, end = _DISCARDED_ROWS if discarded else _KEPT_ROWS
        keys: dict[str, Any] = {"partition": _PARTITION, "first": first, "end": end} | names
        if until is not None:
            query += " and RejectedAt le @until"
            keys["until"] = until
        return await self._latest(query, keys, most, after)

    async def of_task(self, task: TaskId, *, most: int) -> RejectedPage:
        """Read the rows whose keys begin with the task."""
        keys = {"partition": _PARTITION, "first": f"{task}.", "end": f"{task}/"}
        return await self._latest(KEYS_BETWEEN, keys, most)

    async def _latest(
        self, query: str, keys: dict[str, Any], most: int, after: Place | None = None
    ) -> RejectedPage:
        found: list[RejectedMessage] = []
        begin: str | None = None
        for _ in range(5):
            page = await read_page(
                self._table, self._figures, query, keys, after=begin, most=1_000, select=_COLUMNS
            )
            found += readable(_message, page.rows)[0]
            begin = page.continuation
            if begin is None:
                break
        return RejectedPage.of(found, most, after, more=begin is not None)

    async def body(self, message: str) -> tuple[RejectedMessage, bytes] | None:
        """Read a message, and the part of its body that is kept."""
        row = await self._row(message)
        return None if row is None else (_message(row), _body(row))

    async def _row(self, message: str) -> TableEntity | None:
        with table_faults():
            try:
                return await self._table.get_entity(_PARTITION, message)
            except ResourceNotFoundError:
                return None

    async def resending(
        self, message: str, who: str, why: str
    ) -> tuple[RejectedMessage, Content | None] | None:
        """Record that a message is sent again, and return it: the record precedes the sending."""
        row = await self._row(message)
        if row is None:
            return None
        known = _message(row)
        if not known.whole:
            return known, None
        change = {
            "PartitionKey": _PARTITION,
            "RowKey": message,
            "Resends": known.resends + 1,
            **self._action("Resent", who, why),
        }
        guard = str(row.metadata["etag"]), MatchConditions.IfNotModified
        with table_faults():
            try:
                await self._table.update_entity(
                    change, mode=UpdateMode.MERGE, etag=guard[0], match_condition=guard[1]
                )
            except (ResourceModifiedError, ResourceNotFoundError):
                if not await self._is_there(change):
                    raise SentByAnotherError(message) from None
        return _message({**row, **change}), Content(_body(row), Labels(**json.loads(row["Labels"])))

    async def discard(self, message: str, who: str, why: str) -> RejectedMessage | None:
        """Replace a message by a row without its body; another operator may resend it meanwhile."""
        for _ in range(3):
            row = await self._row(message)
            if row is None:
                return None
            discarded = {name: row[name] for name in _COLUMNS if name in row} | {
                # The same message can be rejected and discarded once more.
                "RowKey": f"{_DISCARDED}{message}.{row['RejectedAt']:%Y%m%d%H%M%S%f}",
                **self._action("Discarded", who, why),
            }
            deletion = Operation("delete", {"RowKey": message}, str(row.metadata["etag"]))
            with table_faults():
                answer = await self._groups.send(_PARTITION, [Operation("create", discarded), deletion])
            if not isinstance(answer, GroupRefused) or await self._is_there(discarded):
                return _message(discarded)
            if not answer.conflict:
                raise TransientError(f"{REJECTED_TABLE}: {answer.code}")
        raise TransientError("other operators send it again at this moment")

    def _action(self, name: str, who: str, why: str) -> dict[str, Any]:
        texts = {f"{name}By": who, f"{name}Why": why}
        bounds = {column: bounded(text, _MOST_REASON_BYTES) for column, text in texts.items()}
        return bounds | {f"{name}At": self._clock.now()}

    async def _is_there(self, written: Mapping[str, Any]) -> bool:
        """Return whether a row was written, and only the answer was lost."""
        there = await self._row(written["RowKey"])
        actions = (column for column in _ACTIONS.values() if column in written)
        return there is not None and all(there.get(column) == written[column] for column in actions)

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` messages that were rejected before that time (UTC), and return the count."""
        query = "RejectedAt lt @before and ( RowKey ge @kept or DiscardedAt lt @before )"
        return await delete_old_rows(self._table, query, before, most, kept=_KEPT_ROWS[0])


def _id(queue: str, message_id: str, body: bytes, task: TaskId | None) -> str:
    """Return the row key: a redelivery has the same, and the messages of one task follow each other."""
    digest = hashlib.sha256()
    for part in (queue.encode(), message_id.encode(), body):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest() if task is None else f"{task}.{digest.hexdigest()}"  # a task id holds no dot


def _body(row: Mapping[str, Any]) -> bytes:
    return b"".join(row.get(f"Body{number}", b"") for number in range(_MOST_BODY_BYTES // _PART_BYTES))


def _message(row: Mapping[str, Any]) -> RejectedMessage:
    fields: dict[str, Any] = {field: row[column] for field, column in _FIELDS.items()}
    fields |= {field: row.get(column) for field, column in _ACTIONS.items()}
    about = About(task=row.get("Task"), step=row.get("Step"), agent=row.get("Agent"))
    return RejectedMessage(id=row["RowKey"].removeprefix(_DISCARDED), about=about, **fields)
