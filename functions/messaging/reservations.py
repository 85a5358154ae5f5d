"""Reservations: the id that a caller gives an order is reserved before the order is sent to its queue.

A reservation is the order row of its task without the columns of an order. The admission of the order
replaces it, and a rejection records its reason there. Times are UTC. The functions raise `StorageError`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import AwareDatetime, TypeAdapter

from functions.messaging.message_format import Identity, SubmissionMessage
from functions.storage.group_commits import Conflicted
from functions.storage.record_rows import decoded, joined, split
from functions.storage.row_keys import order_key, shard_of, sortable
from functions.storage.table_contract import RowChange, TransientStorageError
from functions.storage.task_storage import TaskStorage

#: Tries to reserve an id while its row changes.
_MOST_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRecord:
    """The record under an id: a reservation, or the order of a task (`is_admitted`).

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


#: The `Facts` of the order of a task have the same names of fields, so it reads them, too.
_FACTS = TypeAdapter(IdRecord)


async def reserve(storage: TaskStorage, order: SubmissionMessage) -> IdRecord:
    """Reserve the id of an order, also after a rejection. Return the record under the id then.

    The record may be of another order. Reservations of the same moment share a transaction of their shard.
    """
    new = IdRecord(
        workflow=order.workflow,
        submitter=order.submitter,
        content=order.digest,
        submitted_at=order.submitted_at,
        correlation_id=order.correlation_id,
    )
    etag = None
    for _ in range(_MOST_TRIES):
        result = await storage.commit(order.task_id, [_change(order.task_id, new, etag)])
        if not isinstance(result, Conflicted):
            return replace(new, etag=result)
        found = await find_reservation(storage, order.task_id)
        if found is not None and found.rejected is None:
            return found
        etag = None if found is None else found.etag
    raise TransientStorageError(f"task {order.task_id}: its reservation changes at this moment")


async def find_reservation(storage: TaskStorage, task: str) -> IdRecord | None:
    """Return the record under an id, None if there is none."""
    key = order_key(task)
    row = await storage.table.read(shard_of(task, storage.shards), key)
    if row is None:
        return None
    facts = decoded(key, lambda: _FACTS.validate_json(joined(row, "Facts") or ""))
    return replace(facts, etag=str(row["odata.etag"]), is_admitted="Reserved" not in row)


async def reject_reservation(storage: TaskStorage, order: SubmissionMessage, reason: str) -> None:
    """Record why an order is rejected, unless its reservation has changed."""
    found = None if order.reservation is None else await find_reservation(storage, order.task_id)
    if found is not None and found.etag == order.reservation and not found.is_admitted:
        change = _change(order.task_id, replace(found, rejected=reason), found.etag)
        await storage.commit(order.task_id, [change])


def _change(task: str, record: IdRecord, etag: str | None = None) -> RowChange:
    """Return the change that writes a reservation, in the place of the one with this ETag."""
    facts = _FACTS.dump_json(record, exclude={"etag", "is_admitted"}, exclude_defaults=True).decode()
    row = {"Reserved": sortable(record.submitted_at), **split("Facts", facts)}
    return RowChange("update" if etag else "insert", order_key(task), row, etag or "*")
