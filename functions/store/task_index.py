"""The indexes over all tasks, read a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from azure.data.tables.aio import TableClient

from functions.figures import StoreFigures
from functions.pattern.identity import TaskId
from functions.pattern.ports import Index, IndexEntry, IndexPage
from functions.pattern.states import ProcessState
from functions.store.faults import table_faults
from functions.store.keys import shard_key, sortable
from functions.store.pages import read_page


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
        self, index: Index, shard: int, *, until: datetime | None = None, after: str | None = None, most: int
    ) -> IndexPage:
        """Read a page of one shard, oldest first, up to `until` (excluded): one request.

        A page can be short, or empty, and have another behind it. Raises `TransientError`, and
        `ValueError` when `after` is no continuation.
        """
        self._figures.reads += 1
        rows = self._table.query_entities(
            "PartitionKey eq @shard and RowKey ge @first and RowKey lt @end",
            parameters={
                "shard": shard_key(shard),
                "first": f"{index}|",
                "end": f"{index}}}" if until is None else f"{index}|{sortable(until)}",
            },
            results_per_page=most,
        )
        with table_faults():
            page = await read_page(rows, after)
        return IndexPage(tuple(_entry(row) for row in page.rows), page.continuation)


def _entry(row: Mapping[str, Any]) -> IndexEntry:
    _, time, task = row["RowKey"].split("|")
    return IndexEntry(
        task=TaskId(task),
        at=datetime.fromisoformat(time),
        workflow=row["Workflow"],
        state=ProcessState(row["ProcessState"]),
    )
