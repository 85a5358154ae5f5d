"""The indexes over all tasks, read a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from azure.core.async_paging import AsyncItemPaged
from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, IndexPage
from functions.store.connect import table_faults
from functions.store.keys import index_range, index_time, shard_key
from functions.store.pages import read_page

_KEYS_BETWEEN = "PartitionKey eq @shard and RowKey ge @first and RowKey lt @end"

#: All that is read of a row; of a task's own row, its id.
_COLUMNS = ["RowKey", "OrderID", "Workflow", "ProcessState", "SubmittedAt"]


#: A request looks at so many rows at most, and a task has a dozen (Table Storage gives up after 5 seconds).
_MOST_REQUESTS = 5


class TableTaskIndex:
    """Reads the index rows that the state store writes."""

    def __init__(self, table: TableClient, *, shards: int, figures: StoreFigures) -> None:
        self._table = table
        self._shards = shards
        self._figures = figures

    @property
    def shards(self) -> int:
        """Tell how many shards there are; they are numbered from 0."""
        return self._shards

    async def page(
        self,
        index: Index,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of one shard in the index's order, from `since` up to `until` (excluded): one request.

        A page can be short, or empty, and have another behind it. Raises `TransientError`, and
        `ValueError` when `after` is no continuation.
        """
        rows = self._rows(_KEYS_BETWEEN, shard, *index_range(index, since, until), most)
        with table_faults():
            page = await read_page(rows, after)
        return IndexPage(tuple(_entry(row) for row in page.rows), page.continuation)

    async def named(self, prefix: str, shard: int, *, most: int) -> Sequence[TaskId]:
        """Read ids of one shard that begin with `prefix`, in their rows' order: longer ids may come before.

        It takes one request, and a few more where the service gives less than it has; only rows of those
        tasks are looked at. Raises `TransientError`.
        """
        found: list[TaskId] = []
        after = None
        for _ in range(_MOST_REQUESTS):
            rows = self._rows(f"{_KEYS_BETWEEN} and OrderID gt @nothing", shard, prefix, f"{prefix}~", most)
            with table_faults():
                page = await read_page(rows, after)
            found += (TaskId(row["OrderID"]) for row in page.rows)
            after = page.continuation
            if after is None or len(found) >= most:
                break
        return found

    def _rows(self, query: str, shard: int, first: str, end: str, most: int) -> AsyncItemPaged[Any]:
        self._figures.reads += 1
        return self._table.query_entities(
            query,
            parameters={"shard": shard_key(shard), "first": first, "end": end, "nothing": ""},
            select=_COLUMNS,
            results_per_page=most,
        )


def _entry(row: Mapping[str, Any]) -> IndexEntry:
    return IndexEntry(
        task=TaskId(row["OrderID"]),
        at=index_time(row["RowKey"]),
        workflow=row["Workflow"],
        state=ProcessState(row["ProcessState"]),
        submitted_at=row["SubmittedAt"],
    )
