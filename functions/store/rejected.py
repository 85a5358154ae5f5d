"""Messages that were not processed: each kept whole in a row, so that it can be sent again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

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
from functions.store.connect import TableStorage, table_faults
from functions.store.entities import readable
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, Operation
from functions.store.pages import KEYS_BETWEEN, read_page
from functions.store.retention import delete_old_rows

REJECTED_TABLE = "Rejected"
#: Those that Agents could not read, in the Agents' store.
AGENT_REJECTED_TABLE = "AgentRejected"

#: One partition: they are few, and are found by their ids alone. What is known of discarded ones lies there,
#: too, so that one transaction puts it in a message's place; ids begin with a letter, a digit, `-` or `_`.
_PARTITION = "rejected"
_DISCARDED = "!discarded|"
_KEPT_ROWS = ('"', "~")
_DISCARDED_ROWS = (_DISCARDED, "!discarded}")

#: A property holds at most 64 KiB, and a row 1 MiB; no message of a queue of ours is larger than 256 KiB.
_PART_BYTES = 60 * 1024
_MOST_BODY_BYTES = 10 * _PART_BYTES
_MOST_REASON_BYTES = 4 * 1024
_MOST_LABELS_BYTES = 60 * 1024
_MOST_ID_CHARACTERS = 128

#: Rows that one request of a list reads, and their columns: not the body.
_MOST_READ = 1_000
_MOST_REQUESTS = 5
_MOST_TRIES = 3
_BY_WHOM = (
    *("Resends", "ResentBy", "ResentWhy", "ResentAt"),
    *("DiscardedBy", "DiscardedWhy", "DiscardedAt"),
)
_COLUMNS = [
    *("RowKey", "Queue", "MessageID", "BodyBytes", "Whole", "Reason", "RejectedAt"),
    *("Task", "Step", "Agent"),
    *_BY_WHOM,
]


class TableRejectedMessages:
    """The table of rejected messages. Its methods raise `TransientError`."""

    def __init__(
        self, table: TableClient, groups: EntityGroups, *, clock: Clock, figures: StoreFigures
    ) -> None:
        self._table = table
        self._groups = groups
        self._clock = clock
        self._figures = figures

    @classmethod
    def of(cls, storage: TableStorage, name: str, clock: Clock, figures: StoreFigures) -> Self:
        """Keep them in the table of that name."""
        table, groups = storage.table(name), storage.groups(name)
        return cls(table, groups, clock=clock, figures=figures)

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
        carried = _encoded(labels or Labels())
        row = {
            "PartitionKey": _PARTITION,
            "RowKey": _id(queue, message_id, body, about.task),
            "SchemaVersion": 2,
            "Queue": queue,
            "MessageID": message_id[:_MOST_ID_CHARACTERS],
            "BodyBytes": len(body),
            "Whole": len(body) <= _MOST_BODY_BYTES and len(carried) <= _MOST_LABELS_BYTES,
            "Labels": carried[:_MOST_LABELS_BYTES],
            "Reason": bounded(reason, _MOST_REASON_BYTES),
            "RejectedAt": self._clock.now(),
            "Resends": 0,
            "Task": about.task,
            "Step": about.step,
            "Agent": about.agent,
            **_parts(body[:_MOST_BODY_BYTES]),
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
        """Read up to 5,000, in a few requests, and give a page of the latest of them."""
        names = {f"q{number}": queue for number, queue in enumerate(queues)}
        wanted = " or ".join(f"Queue eq @q{number}" for number in range(len(queues)))
        # The client tells parameters apart by spaces, also before a bracket.
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
        for _ in range(_MOST_REQUESTS):
            page = await read_page(
                self._table, self._figures, query, keys, after=begin, most=_MOST_READ, select=_COLUMNS
            )
            found += readable(_message, page.rows)[0]
            begin = page.continuation
            if begin is None:
                break
        return RejectedPage.of(found, most, after, more=begin is not None)

    async def body(self, message: str) -> tuple[RejectedMessage, bytes] | None:
        """Read a message, and what is kept of its body."""
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
        """Record that a message is sent again, then give it: what is sent stands on the record before."""
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
            "ResentBy": bounded(who, _MOST_REASON_BYTES),
            "ResentWhy": bounded(why, _MOST_REASON_BYTES),
            "ResentAt": self._clock.now(),
        }
        with table_faults():
            try:
                await self._table.update_entity(
                    change,
                    mode=UpdateMode.MERGE,
                    etag=str(row.metadata["etag"]),
                    match_condition=MatchConditions.IfNotModified,
                )
            except (ResourceModifiedError, ResourceNotFoundError):
                if not await self._is_there(change):
                    raise SentByAnotherError(message) from None
        return _message({**row, **change}), Content(_body(row), _labels(row["Labels"]))

    async def discard(self, message: str, who: str, why: str) -> RejectedMessage | None:
        """Put what is known of a message in its place, if it is as it was read: it may be sent again now."""
        for _ in range(_MOST_TRIES):
            row = await self._row(message)
            if row is None:
                return None
            discarded = {name: row[name] for name in _COLUMNS if name in row} | {
                # Rejected once more, the same message can be discarded once more.
                "RowKey": f"{_DISCARDED}{message}.{row['RejectedAt']:%Y%m%d%H%M%S%f}",
                "DiscardedBy": bounded(who, _MOST_REASON_BYTES),
                "DiscardedWhy": bounded(why, _MOST_REASON_BYTES),
                "DiscardedAt": self._clock.now(),
            }
            deletion = Operation("delete", {"RowKey": message}, str(row.metadata["etag"]))
            with table_faults():
                answer = await self._groups.send(_PARTITION, [Operation("create", discarded), deletion])
            if not isinstance(answer, GroupRefused) or await self._is_there(discarded):
                return _message(discarded)
            if not answer.conflict:
                raise TransientError(f"{REJECTED_TABLE}: {answer.code}")
        raise TransientError("other operators send it again at this moment")

    async def _is_there(self, written: Mapping[str, Any]) -> bool:
        """Tell whether it was written, and only the answer was lost."""
        there = await self._row(written["RowKey"])
        return there is not None and all(there.get(name) == written.get(name) for name in _BY_WHOM)

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` messages rejected before that time; give how many."""
        query = "RejectedAt lt @before and ( RowKey ge @kept or DiscardedAt lt @before )"
        return await delete_old_rows(self._table, query, before, most, kept=_KEPT_ROWS[0])


def _id(queue: str, message_id: str, body: bytes, task: TaskId | None) -> str:
    """Name a message, so that its next delivery is known, whatever characters its own id has.

    The name begins with the task, so that those of one task are found together; a task id holds no dot.
    """
    digest = hashlib.sha256()
    for part in (queue.encode(), message_id.encode(), body):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest() if task is None else f"{task}.{digest.hexdigest()}"


def _parts(body: bytes) -> dict[str, bytes]:
    starts = range(0, max(len(body), 1), _PART_BYTES)
    return {f"Body{number}": body[start : start + _PART_BYTES] for number, start in enumerate(starts)}


def _body(row: Mapping[str, Any]) -> bytes:
    names = (f"Body{number}" for number in range(_MOST_BODY_BYTES // _PART_BYTES))
    return b"".join(row[name] for name in names if name in row)


def _encoded(labels: Labels) -> bytes:
    carried = {
        "subject": labels.subject,
        "correlation_id": labels.correlation_id,
        "properties": dict(labels.properties),
    }
    return json.dumps(carried).encode()


def _labels(encoded: bytes) -> Labels:
    return Labels(**json.loads(encoded))


def _message(row: Mapping[str, Any]) -> RejectedMessage:
    return RejectedMessage(
        id=row["RowKey"].removeprefix(_DISCARDED),
        queue=row["Queue"],
        message_id=row["MessageID"],
        size=row["BodyBytes"],
        whole=row["Whole"],
        reason=row["Reason"],
        rejected_at=row["RejectedAt"],
        about=About(task=row.get("Task"), step=row.get("Step"), agent=row.get("Agent")),
        resends=row["Resends"],
        resent_by=row.get("ResentBy"),
        resent_why=row.get("ResentWhy"),
        resent_at=row.get("ResentAt"),
        discarded_by=row.get("DiscardedBy"),
        discarded_why=row.get("DiscardedWhy"),
        discarded_at=row.get("DiscardedAt"),
    )
