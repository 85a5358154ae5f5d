"""Group commit on one shard: transactions of different tasks that wait together are sent as one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from functions.pattern.errors import UnwritableError
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation
from functions.store.row_reads import RowReads

#: Operations that an entity group transaction takes (Table Storage).
MOST_OPERATIONS = 100
#: Bytes of the whole request: Table Storage takes 4 MiB, but a large body blocks the event loop.
_MOST_BYTES = 1024 * 1024

#: What a row takes on the wire beside the values that can be large.
_ROW_BYTES = 4 * 1024


@dataclass(frozen=True, slots=True)
class Transaction:
    """What must change together of one task."""

    task: TaskId
    operations: tuple[Operation, ...]

    @property
    def key(self) -> TaskId:
        """A row can be named once in a transaction, so a task's changes never share one."""
        return self.task

    @property
    def rows(self) -> frozenset[str]:
        """Name the rows by their keys."""
        return frozenset(str(each.entity["RowKey"]) for each in self.operations)

    @property
    def created(self) -> str | None:
        """Name the row of a new task whose being there would refuse the whole transaction."""
        first = self.operations[0]
        return str(first.entity["RowKey"]) if first.kind == "create" else None

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
    """The transaction holds; `etag` is the first row's (empty when that was deleted)."""

    etag: str


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Some of `rows`, by their keys, were not as expected: the one that the service named, or any.

    It may be our own write, whose answer was lost: read back.
    """

    rows: frozenset[str]


#: What becomes of a transaction. A value, not raised, as one task's error is no other's.
type Result = Committed | Conflicted | UnwritableError


class ShardWriter:
    """Commits transactions of one shard."""

    def __init__(
        self, groups: EntityGroups, shard: str, figures: StoreFigures, row_reads: RowReads | None = None
    ) -> None:
        self._groups = groups
        self._row_reads = row_reads
        self._shard = shard
        self._figures = figures

    async def commit(self, transactions: Sequence[Transaction]) -> list[Result]:
        """Commit each whole or not at all, and give the result of each in their order.

        A refused group is taken apart: a conflict is the task's whose operation is named, and the rest is
        sent again; after any other refusal each is sent alone. Where one new task is there already, others
        may be, too: with `row_reads`, they are looked up once, and only those that are absent are sent again.
        Raises `AzureError` when the service fails.
        """
        results: dict[TaskId, Result] = {}
        remaining, looked_up = list(transactions), False
        while remaining:
            answer = await self._send(remaining)
            if isinstance(answer, GroupWritten):
                results |= _committed(remaining, answer)
                break
            refused, rows = _to_blame(remaining, answer)
            if refused is None:
                for each in remaining:
                    results[each.task] = await self._commit_alone(each)
                break
            unwritable = UnwritableError(refused.task, answer.code)
            results[refused.task] = Conflicted(rows) if answer.conflict else unwritable
            remaining.remove(refused)
            if answer.conflict and refused.created is not None and not looked_up:
                looked_up = True
                for each in await self._there_already(remaining):
                    results[each.task] = Conflicted(each.rows)
                    remaining.remove(each)
        return [results[each.task] for each in transactions]

    async def delete(self, task: TaskId, deletions: Sequence[Operation]) -> bool:
        """Delete rows in one transaction; tell whether they were there and as expected."""
        [result] = await self.commit([Transaction(task, tuple(deletions))])
        if isinstance(result, UnwritableError):
            raise result
        return isinstance(result, Committed)

    async def _there_already(self, transactions: Sequence[Transaction]) -> list[Transaction]:
        """Find the new tasks that are there: else a replayed batch would conflict task by task."""
        found = await asyncio.gather(*map(self._is_there, transactions))
        return [each for each, there in zip(transactions, found, strict=True) if there]

    async def _is_there(self, transaction: Transaction) -> bool:
        if transaction.created is None or self._row_reads is None:
            return False
        self._figures.reads += 1
        found = await self._row_reads.read(self._shard, transaction.created, ("RowKey",))
        return found is not None

    async def _commit_alone(self, transaction: Transaction) -> Result:
        [result] = await self.commit([transaction])
        return result

    async def _send(self, transactions: Sequence[Transaction]) -> GroupWritten | GroupRefused:
        operations = [operation for each in transactions for operation in each.operations]
        self._figures.transactions += 1
        self._figures.operations += len(operations)
        return await self._groups.send(self._shard, operations)


def _committed(transactions: Sequence[Transaction], written: GroupWritten) -> dict[TaskId, Result]:
    results: dict[TaskId, Result] = {}
    first = 0
    for each in transactions:
        results[each.task] = Committed(written.etags[first])
        first += len(each.operations)
    return results


def _to_blame(
    transactions: Sequence[Transaction], refused: GroupRefused
) -> tuple[Transaction | None, frozenset[str]]:
    """Find the transaction that is refused, if it is known which, and for which of its rows."""
    index = refused.index if refused.conflict else None
    for each in transactions:
        if index is not None and index < len(each.operations):
            return each, frozenset({str(each.operations[index].entity["RowKey"])})
        index = index if index is None else index - len(each.operations)
    only = transactions[0] if len(transactions) == 1 else None
    return only, only.rows if only else frozenset()
