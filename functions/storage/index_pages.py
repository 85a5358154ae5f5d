"""Reads of index rows and messages by pages, for the Supervisor and for operators' lists.

A corrupt row is named in the page and hides no other row. Times are UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from functions.core.derive import ProcessState
from functions.core.record import ClosedEpoch, Message
from functions.storage.record_rows import closed_epoch, decoded, message_of
from functions.storage.row_keys import (
    TaskIndex,
    epoch_key,
    index_range,
    shard_name,
    shard_of,
    task_in,
    time_in,
)
from functions.storage.table_contract import KEYS, CorruptRowError, Row, RowQuery, Table, every_page

_LISTED = (
    *KEYS,
    "OrderID",
    "Workflow",
    "WorkflowVersion",
    "Submitter",
    "SubmittedAt",
    "ProcessState",
    "Reason",
)


@dataclass(frozen=True, slots=True)
class DueTask:
    """An index row of the due index, of a gate or of a suspended task; `at` is the time in its key."""

    task: str
    key: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A row of an operators' list. `at` is the time in the key of an index row, otherwise None.

    `state` and `reason` are those of the moment at which the row was written.
    """

    task: str
    key: str
    at: datetime | None
    workflow: str
    version: int
    submitter: str
    submitted_at: datetime
    state: ProcessState | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class IndexPage[EntryT]:
    """Entries in the order of their keys, and the corrupt rows between them.

    `cursor` continues after the page; None: there are no more rows.
    """

    entries: Sequence[EntryT]
    cursor: str | None
    corrupt: Sequence[CorruptRowError] = ()


class IndexPages:
    """Reads one table. Its methods raise `TransientStorageError`. A page has at most `most` rows (1,000).

    The cursors of `due`, `waiting` and `messages` are keys, so they are valid after any time.
    """

    def __init__(self, table: Table, shards: int) -> None:
        self._table = table
        self.shards = shards

    async def due(
        self, shard: int, until: datetime, *, cursor: str | None = None, most: int = 1000
    ) -> IndexPage[DueTask]:
        """Return the tasks that are due before a time, the earliest first."""
        keys = index_range(TaskIndex.DUE, until=until)
        return await self._keyed(shard, replace(keys, beyond=cursor, most=most), _due_task)

    async def waiting(
        self, index: TaskIndex, name: str, shard: int, *, cursor: str | None = None, most: int = 1000
    ) -> IndexPage[DueTask]:
        """Return the tasks behind the gate `name` in waiting order, or suspended for `workflow|version`."""
        return await self._keyed(
            shard, replace(index_range(index, name), beyond=cursor, most=most), _due_task
        )

    async def messages(
        self, shard: int, *, cursor: str | None = None, most: int = 1000
    ) -> IndexPage[tuple[str, Message]]:
        """Return the messages of the outbox with their keys, receiver by receiver."""
        query = RowQuery("!send|", "!send}", beyond=cursor, most=most)
        return await self._keyed(shard, query, lambda row: (str(row["RowKey"]), message_of(row)))

    async def listed(
        self,
        index: TaskIndex,
        shard: int,
        *,
        name: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        cursor: str | None = None,
        most: int = 1000,
    ) -> IndexPage[ListedTask]:
        """Return a page of an index in one request, from `since` to before `until`; it may be short.

        `name` is a search key, or the workflow and version of suspended tasks. Raises `ValueError` for a
        cursor of another origin.
        """
        keys = index_range(index, name, since=since, until=until)
        return await self._page(shard, replace(keys, continuation=cursor, most=most), listed_task)

    async def orders(
        self, prefix: str, shard: int, *, cursor: str | None = None, most: int = 1000
    ) -> IndexPage[ListedTask]:
        """Return a page of the orders whose task ids start with a prefix, in one request; it may be short."""
        query = RowQuery(prefix, f"{prefix}~", continuation=cursor, most=most, having="Specs")
        return await self._page(shard, query, _order)

    async def closed_epochs(self, task: str) -> tuple[list[ClosedEpoch], list[CorruptRowError]]:
        """Return the closed epochs of a task, the oldest first, and the corrupt rows."""
        query = RowQuery(epoch_key(task, 0), epoch_key(task, 999_999))
        pages = every_page(self._table, shard_of(task, self.shards), query)
        return decodable([row async for page in pages for row in page.rows], closed_epoch)

    async def _page(
        self, shard: int, query: RowQuery, decode: Callable[[Row], ListedTask]
    ) -> IndexPage[ListedTask]:
        page = await self._table.query(shard_name(shard), replace(query, columns=_LISTED))
        entries, corrupt = decodable(page.rows, decode)
        return IndexPage(entries, page.continuation, corrupt)

    async def _keyed[EntryT](
        self, shard: int, query: RowQuery, decode: Callable[[Row], EntryT]
    ) -> IndexPage[EntryT]:
        """Return the next page that has rows. Its cursor is the key of its last row."""
        async for page in every_page(self._table, shard_name(shard), query):
            if page.rows:
                entries, corrupt = decodable(page.rows, decode)
                return IndexPage(entries, next_cursor(page.rows, query.most, page.continuation), corrupt)
        return IndexPage((), None)


def next_cursor(rows: Sequence[Row], most: int, continuation: str | None) -> str | None:
    """Return the key of the last row of a page, None if no rows can follow."""
    return str(rows[-1]["RowKey"]) if rows and (continuation is not None or len(rows) >= most) else None


def listed_task(row: Row) -> ListedTask:
    """Return an index row for lists. Raises `CorruptRowError`."""
    key = str(row["RowKey"])
    return decoded(key, lambda: _listed(row, task_in(key), time_in(key)))


def decodable[EntryT](
    rows: Iterable[Row], decode: Callable[[Row], EntryT]
) -> tuple[list[EntryT], list[CorruptRowError]]:
    """Return the decoded rows, and the errors of the others."""
    entries: list[EntryT] = []
    corrupt: list[CorruptRowError] = []
    for row in rows:
        try:
            entries.append(decode(row))
        except CorruptRowError as error:
            corrupt.append(error)
    return entries, corrupt


def _due_task(row: Row) -> DueTask:
    key = str(row["RowKey"])
    return DueTask(task_in(key), key, decoded(key, lambda: time_in(key)))


def _order(row: Row) -> ListedTask:
    key = str(row["RowKey"])
    return decoded(key, lambda: _listed(row, key.partition("|")[0], None))


def _listed(row: Row, task: str, at: datetime | None) -> ListedTask:
    workflow, version, state = row["Workflow"], row["WorkflowVersion"], row.get("ProcessState")
    if row["OrderID"] != task or type(version) is not int or not isinstance(workflow, str):
        raise ValueError("a column has a wrong value")
    return ListedTask(
        task=task,
        key=str(row["RowKey"]),
        at=at,
        workflow=workflow,
        version=version,
        submitter=row["Submitter"],
        submitted_at=datetime.fromisoformat(row["SubmittedAt"]),
        state=None if state is None else ProcessState(state),
        reason=row.get("Reason"),
    )
