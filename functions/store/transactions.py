"""Group commit on one shard: transactions of different tasks that wait together are sent as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableTransactionError, UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.store.entities import Entity

#: Operations that an entity group transaction takes (Table Storage).
MOST_OPERATIONS = 100
#: Bytes of the whole request: Table Storage takes 4 MiB, but a large body blocks the event loop.
_MOST_BYTES = 1024 * 1024

#: What a row takes on the wire beside the values that can be large.
_ROW_BYTES = 4 * 1024

#: How the service answers when a row is not as expected.
_CONFLICTS = frozenset({404, 409, 412})

#: By default the SDK repeats no POST after a lost connection, yet any load balancer cuts idle ones.
#: Ours may be repeated: each transaction is conditional, and a conflict is read back.
_REPEATED = frozenset({"POST"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One row's change. `etag` makes an update conditional."""

    kind: Literal["create", "update", "upsert", "touch", "delete"]
    entity: Entity
    etag: str | None = None

    def wire(self) -> tuple[str, Entity, Mapping[str, Any]]:
        """Give the operation as the SDK takes it; `update` replaces the row, `touch` only needs it."""
        if self.kind == "touch":
            return "update", self.entity, {"mode": UpdateMode.MERGE}
        options: dict[str, Any] = {}
        if self.kind in {"update", "upsert"}:
            options["mode"] = UpdateMode.REPLACE
        if self.etag is not None:
            options |= {"etag": self.etag, "match_condition": MatchConditions.IfNotModified}
        return self.kind, self.entity, options


@dataclass(frozen=True, slots=True)
class Transaction:
    """What must change together of one task. The first operation is the task's row."""

    task: TaskId
    operations: tuple[Operation, ...]

    @property
    def key(self) -> TaskId:
        """A row can be named once in a transaction, so a task's changes never share one."""
        return self.task

    @property
    def share(self) -> float:
        """Tell which part of a transaction's limits this takes."""
        large = sum(
            len(value)
            for operation in self.operations
            for value in operation.entity.values()
            if isinstance(value, bytes)
        )
        size = large * 4 / 3 + _ROW_BYTES * len(self.operations)  # bytes travel as base64
        return max(len(self.operations) / MOST_OPERATIONS, size / _MOST_BYTES)


@dataclass(frozen=True, slots=True)
class Committed:
    """The transaction holds; `etag` is the task row's."""

    etag: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """A row was not as expected. It may be our own write, whose answer was lost: read back."""


class ShardWriter:
    """Commits transactions of one shard."""

    def __init__(self, table: TableClient, shard: str, figures: StoreFigures) -> None:
        self._table = table
        self._shard = shard
        self._figures = figures

    async def commit(self, transactions: Sequence[Transaction]) -> list[Committed | Conflicted]:
        """Commit each whole or not at all, and give the result of each in their order.

        A refusal names one operation: the conflict is that task's, and the rest is sent again.
        """
        results: dict[TaskId, Committed | Conflicted] = {}
        remaining = list(transactions)
        while remaining:
            try:
                etags = await self._send(remaining)
            except TableTransactionError as error:
                if error.status_code not in _CONFLICTS:
                    raise
                refused = _owner(remaining, error.index)
                results[refused.task] = Conflicted()
                remaining.remove(refused)
            else:
                results |= dict(zip((each.task for each in remaining), etags, strict=True))
                break
        return [results[each.task] for each in transactions]

    async def _send(self, transactions: Sequence[Transaction]) -> list[Committed]:
        operations = [operation for each in transactions for operation in each.operations]
        for operation in operations:
            operation.entity["PartitionKey"] = self._shard
        self._figures.transactions += 1
        self._figures.operations += len(operations)
        answers = await self._table.submit_transaction(
            (each.wire() for each in operations), retry_on_methods=_REPEATED
        )
        etags: list[Committed] = []
        first = 0
        for each in transactions:
            etags.append(Committed(answers[first]["etag"]))
            first += len(each.operations)
        return etags


async def delete_rows(
    table: TableClient, shard: str, figures: StoreFigures, deletions: Sequence[Operation]
) -> bool:
    """Delete rows in one transaction; tell whether they were there and as expected."""
    figures.transactions += 1
    figures.operations += len(deletions)
    for each in deletions:
        each.entity["PartitionKey"] = shard
    try:
        await table.submit_transaction(each.wire() for each in deletions)
    except TableTransactionError as error:
        if error.status_code in _CONFLICTS:
            return False
        raise
    return True


def _owner(transactions: Sequence[Transaction], index: int) -> Transaction:
    for each in transactions:
        if index < len(each.operations):
            return each
        index -= len(each.operations)
    raise HttpResponseError("the service refused an operation that was not sent")
