"""The rows of tasks on the table: read whole, and changed by transactions that are sent together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functions.pattern.coalescer import Coalescer
from functions.pattern.errors import TransientError, UnwritableError
from functions.pattern.identity import Birth, TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import KnownOrder, Stored
from functions.store.connect import table_faults
from functions.store.entities import record_of, unreadable, writes_of
from functions.store.keys import SHARDS_PARTITION, SHARDS_ROW, order_row, rows_of, task_row
from functions.store.pages import KEYS_BETWEEN, read_page
from functions.store.shards import Shards
from functions.store.transactions import Committed, Conflicted, Result, ShardWriter, Transaction

#: While fewer transactions of a shard are on their way, the next is sent at once: groups are small anyway.
_FEW_ON_THEIR_WAY = 2

#: How often a task that has several pages of rows is read anew because it changed meanwhile.
_MOST_READS = 20


class TaskTable:
    """Reads tasks and commits transactions. Its methods raise `TransientError` when the service fails."""

    def __init__(self, shards: Shards, figures: StoreFigures) -> None:
        self._shards = shards
        self._figures = figures
        self._writers: dict[str, Coalescer[Transaction, Result]] = {}

    async def check(self) -> None:
        """Read a row, to see that Table Storage answers."""
        with table_faults():
            await self._shards.table.get_entity(SHARDS_PARTITION, SHARDS_ROW)

    async def commit(self, transaction: Transaction) -> Committed | Conflicted:
        """Commit a transaction whole or not at all, together with what else waits.

        Raises `UnwritableError` when the service would refuse it again.
        """
        shard = self._shards.key(transaction.task)
        if shard not in self._writers:
            writer = ShardWriter(self._shards.groups, shard, self._figures, self._shards.row_reads)
            self._writers[shard] = Coalescer(writer.commit, few=_FEW_ON_THEIR_WAY)
        with table_faults():
            result = await self._writers[shard].submit(transaction)
        if isinstance(result, UnwritableError):
            raise result
        return result

    async def read(self, task: TaskId) -> Stored | None:
        """Read one task as it was at one moment, or None when there is none. Raises `UnreadableError`.

        Pages are read one after another, and the task's own row comes last. So they belong together when it
        is as it was at the end of the read before.
        """
        version = None
        for _ in range(_MOST_READS):
            rows, pages = await self._rows(task)
            own = [row for row in rows if row["RowKey"] == task_row(task)]
            if not own:
                return None
            before, version = version, str(own[0].metadata["etag"])
            if pages == 1 or version == before:
                return _stored(rows, own[0], version)
        raise TransientError(f"task {task} changes faster than it can be read")

    async def order(self, task: TaskId) -> KnownOrder | None:
        """Read which order is recorded under an id: a read by key, which costs the same in any table."""
        self._figures.reads += 1
        columns = ("Digest", "Submitter", "Birth")
        with table_faults():
            row = await self._shards.row_reads.read(self._shards.key(task), order_row(task), columns)
        if row is None:
            return None
        return KnownOrder(
            digest=row["Digest"],
            submitter=row["Submitter"],
            birth=Birth(row["Birth"]),
        )

    async def _rows(self, task: TaskId) -> tuple[list[Any], int]:
        first, end = rows_of(task)
        rows: list[Mapping[str, Any]] = []
        after, pages = None, 0
        keys = {"partition": self._shards.key(task), "first": first, "end": end}
        while pages == 0 or after is not None:
            page = await read_page(self._shards.table, self._figures, KEYS_BETWEEN, keys, after=after)
            rows += page.rows
            after, pages = page.continuation, pages + 1
        return rows, pages


def _stored(rows: Sequence[Mapping[str, Any]], own: Mapping[str, Any], version: str) -> Stored:
    """Read a task's rows, of which `own` is its state. Raises `UnreadableError`, whatever is wrong."""
    try:
        return Stored(record_of(rows), version, writes_of(own))
    except Exception as error:
        raise unreadable(own, error) from error
