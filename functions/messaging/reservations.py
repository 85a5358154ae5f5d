"""Reservations: the id that a caller gives an order is reserved before the order is sent to its queue.

A reservation is the order row of its task without the columns of an order. The admission of the order
replaces it, and a rejection records its reason there. Times are UTC.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import batched

from pydantic import AwareDatetime, TypeAdapter

from functions.messaging.message_format import SubmissionMessage
from functions.storage.group_commits import Committed
from functions.storage.record_rows import decoded, joined, split
from functions.storage.row_keys import ALL_TASKS, order_key, shard_name, shard_of, sortable
from functions.storage.table_contract import (
    MOST_OPERATIONS,
    Row,
    RowChange,
    StorageError,
    TransientStorageError,
    every_page,
)
from functions.storage.task_storage import TaskStorage

#: The submitter of an order and the digest of its content. Only orders with equal ones are the same.
type Identity = tuple[str, str]

#: Tries to reserve an id while its row changes.
_MOST_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What is recorded under an id: the order of a task (`is_admitted`), or a reservation.

    `content` is the digest of the order. `rejected` is the reason of a rejection, for callers: another order
    may reserve the id then.
    """

    workflow: str
    submitter: str
    content: str = ""
    submitted_at: AwareDatetime
    correlation_id: str | None = None
    rejected: str | None = None
    etag: str = ""
    is_admitted: bool = False

    @property
    def identity(self) -> Identity:
        """Return the identity of the order."""
        return self.submitter, self.content


_FACTS = TypeAdapter(Reservation)


@dataclass(frozen=True, slots=True)
class Reservations:
    """The reservations of a state store. Its methods raise `StorageError`."""

    storage: TaskStorage

    async def reserve(self, orders: Sequence[SubmissionMessage]) -> list[Reservation | BaseException]:
        """Reserve the ids of orders, which differ, in one transaction for each shard.

        Return for each order what is recorded under its id then, maybe of another order, or the error.
        """
        shards = defaultdict[str, list[SubmissionMessage]](list)
        for order in orders:
            shards[shard_of(order.task_id, self.storage.shards)].append(order)
        groups = [group for each in shards.values() for group in batched(each, MOST_OPERATIONS, strict=False)]
        found: dict[str, Reservation | BaseException] = {}
        for group, results in zip(groups, await asyncio.gather(*map(self._reserve, groups)), strict=True):
            found |= {order.task_id: each for order, each in zip(group, results, strict=True)}
        return [found[order.task_id] for order in orders]

    async def _reserve(self, group: Sequence[SubmissionMessage]) -> Sequence[Reservation | BaseException]:
        new = [_reservation_of(order) for order in group]
        try:
            changes = [_change(order.task_id, each) for order, each in zip(group, new, strict=True)]
            result = await self.storage.commit(group[0].task_id, changes)
        except StorageError as error:
            return [error] * len(group)
        if isinstance(result, Committed):
            return [replace(each, etag=etag) for each, etag in zip(new, result.etags, strict=True)]
        return await asyncio.gather(*map(self._reserve_alone, group), return_exceptions=True)

    async def _reserve_alone(self, order: SubmissionMessage) -> Reservation:
        """Return what is recorded under an id; if there is nothing, or a rejection, reserve it."""
        new = _reservation_of(order)
        for _ in range(_MOST_TRIES):
            found = await self.find(order.task_id)
            if found is not None and found.rejected is None:
                return found
            etag = None if found is None else found.etag
            result = await self.storage.commit(order.task_id, [_change(order.task_id, new, etag)])
            if isinstance(result, Committed):
                return replace(new, etag=result.etag)
        raise TransientStorageError(f"task {order.task_id}: its reservation changes at this moment")

    async def find(self, task: str) -> Reservation | None:
        """Return what is recorded under an id, None if there is nothing."""
        key = order_key(task)
        row = await self.storage.table.read(shard_of(task, self.storage.shards), key)
        return None if row is None else decoded(key, lambda: _reservation_in(row))

    async def reject(self, order: SubmissionMessage, reason: str) -> None:
        """Record why an order is rejected, unless its reservation has changed."""
        found = None if order.reservation is None else await self.find(order.task_id)
        if found is not None and found.etag == order.reservation and not found.is_admitted:
            change = _change(order.task_id, replace(found, rejected=reason), found.etag)
            await self.storage.commit(order.task_id, [change])

    async def delete_before(self, shard: int, before: datetime, cursor: str | None) -> tuple[int, str | None]:
        """Delete reservations before a time, one page after a cursor; return their number and the cursor."""
        partition, deleted = shard_name(shard), 0
        query = replace(ALL_TASKS, beyond=cursor, having="Reserved")
        async for page in every_page(self.storage.table, partition, query):
            for row in page.rows:
                if str(row["Reserved"]) < sortable(before):
                    task = str(row["RowKey"]).partition("|")[0]
                    change = RowChange("delete", order_key(task), etag=str(row["odata.etag"]))
                    deleted += isinstance(await self.storage.commit(task, [change]), Committed)
            if page.rows and page.continuation is not None:
                return deleted, str(page.rows[-1]["RowKey"])
        return deleted, None


def _reservation_of(order: SubmissionMessage) -> Reservation:
    return Reservation(
        workflow=order.workflow,
        submitter=order.submitter,
        content=order.digest,
        submitted_at=order.submitted_at,
        correlation_id=order.correlation_id,
    )


def _change(task: str, reservation: Reservation, etag: str | None = None) -> RowChange:
    """Return the change that writes a reservation, in the place of the one with this ETag."""
    facts = _FACTS.dump_json(reservation, exclude={"etag", "is_admitted"}, exclude_defaults=True).decode()
    row = {"Reserved": sortable(reservation.submitted_at), **split("Facts", facts)}
    return RowChange("update" if etag else "insert", order_key(task), row, etag or "*")


def _reservation_in(row: Row) -> Reservation:
    facts = _FACTS.validate_json(joined(row, "Facts") or "")
    return replace(facts, etag=str(row["odata.etag"]), is_admitted="Reserved" not in row)
