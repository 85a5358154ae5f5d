"""Messages that were not processed: each is kept whole in a row, so that it can be sent again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableEntity, UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.rejected import (
    About,
    Content,
    Labels,
    RejectedList,
    RejectedMessage,
    SentByAnotherError,
)
from functions.pattern.request_figures import StoreFigures
from functions.pattern.texts import bounded
from functions.store.connect import table_faults
from functions.store.entities import RowCodec, readable
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
_PART_BYTES = 64 * 1024
_MOST_BODY_BYTES = 4 * _PART_BYTES

_CODEC = RowCodec(RejectedMessage, {"message_id": "MessageID", "size": "BodyBytes"}, elsewhere="id")


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
        about: About | None = None,
    ) -> None:
        """Record the message; when it is delivered again, its row stays as it is."""
        known, carried = about or About(), json.dumps(asdict(labels or Labels())).encode()
        parts = range(0, max(1, min(len(body), _MOST_BODY_BYTES)), _PART_BYTES)
        message = RejectedMessage(
            id=_id(queue, message_id, body, known.task),
            queue=queue,
            message_id=message_id[:128],
            size=len(body),
            whole=len(body) <= _MOST_BODY_BYTES and len(carried) <= _PART_BYTES,
            reason=bounded(reason, 4_096),
            rejected_at=self._clock.now(),
            **asdict(known),
        )
        row = {
            "PartitionKey": _PARTITION,
            **_CODEC.encode(message.id, message),
            "Labels": carried[:_PART_BYTES],
            **{f"Body{n}": body[start : start + _PART_BYTES] for n, start in enumerate(parts)},
        }
        with table_faults(), suppress(ResourceExistsError):
            await self._table.create_entity(row)

    async def listed(
        self, queues: Sequence[str], most: int, *, until: datetime | None = None, discarded: bool = False
    ) -> RejectedList:
        """Read up to 5,000 rows, and return the latest `most` messages."""
        names = {f"q{number}": queue for number, queue in enumerate(queues)}
        wanted = " or ".join(f"Queue eq @q{number}" for number in range(len(queues)))
        # The client separates parameters by spaces, also before a bracket.
        query = KEYS_BETWEEN + (f" and ( {wanted} )" if wanted else "")
        first, end = _DISCARDED_ROWS if discarded else _KEPT_ROWS
        keys: dict[str, Any] = {"partition": _PARTITION, "first": first, "end": end} | names
        if until is not None:
            query += " and RejectedAt le @until"
            keys["until"] = until
        return await self._latest(query, keys, most)

    async def of_task(self, task: TaskId, most: int) -> RejectedList:
        """Read the rows whose keys begin with the task."""
        keys = {"partition": _PARTITION, "first": f"{task}.", "end": f"{task}/"}
        return await self._latest(KEYS_BETWEEN, keys, most)

    async def _latest(self, query: str, keys: dict[str, Any], most: int) -> RejectedList:
        found: list[RejectedMessage] = []
        begin: str | None = None
        for _ in range(5):
            page = await read_page(
                self._table, self._figures, query, keys, after=begin, most=1_000, select=_CODEC.columns
            )
            found += readable(_message, page.rows)[0]
            begin = page.continuation
            if begin is None:
                break
        found.sort(key=attrgetter("rejected_at"), reverse=True)
        return RejectedList(found[:most], more=len(found) > most or begin is not None)

    async def body(self, message: str) -> tuple[RejectedMessage, bytes] | None:
        """Read a message, and the part of its body that is kept."""
        row = await self._row(message)
        return None if row is None else (_message(row), _body(row))

    async def _row(self, message: str) -> TableEntity | None:
        with table_faults(), suppress(ResourceNotFoundError):
            return await self._table.get_entity(_PARTITION, message)
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
        resent = replace(
            known, resends=known.resends + 1, resent_by=who, resent_why=why, resent_at=self._clock.now()
        )
        change = {"PartitionKey": _PARTITION, **_CODEC.encode(message, resent)}
        etag = str(row.metadata["etag"])
        with table_faults():
            try:
                await self._table.update_entity(
                    change, mode=UpdateMode.MERGE, etag=etag, match_condition=MatchConditions.IfNotModified
                )
            except (ResourceModifiedError, ResourceNotFoundError):
                if not await self._is_written(message, resent):
                    raise SentByAnotherError(message) from None
        return resent, Content(_body(row), Labels(**json.loads(row["Labels"])))

    async def discard(self, message: str, who: str, why: str) -> RejectedMessage | None:
        """Replace a message by a row without its body; another operator may resend it meanwhile."""
        for _ in range(3):
            row = await self._row(message)
            if row is None:
                return None
            known = _message(row)
            # The same message can be rejected and discarded once more.
            name = f"{message}.{known.rejected_at:%Y%m%d%H%M%S%f}"
            discarded = replace(
                known, id=name, discarded_by=who, discarded_why=why, discarded_at=self._clock.now()
            )
            key = f"{_DISCARDED}{name}"
            deletion = Operation("delete", {"RowKey": message}, str(row.metadata["etag"]))
            creation = Operation("create", _CODEC.encode(key, discarded))
            with table_faults():
                answer = await self._groups.send(_PARTITION, [creation, deletion])
            if not isinstance(answer, GroupRefused) or await self._is_written(key, discarded):
                return discarded
            if not answer.conflict:
                raise TransientError(f"{REJECTED_TABLE}: {answer.code}")
        raise TransientError("other operators send it again at this moment")

    async def _is_written(self, key: str, message: RejectedMessage) -> bool:
        """Return whether a row was written, and only the answer was lost."""
        row = await self._row(key)
        return row is not None and _message(row) == message

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
    return _CODEC.decode(row, id=row["RowKey"].removeprefix(_DISCARDED))
