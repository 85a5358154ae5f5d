"""The outbox: rows that say what has to be told, from the change that caused it until it is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables.aio import TableClient

from functions.figures import StoreFigures
from functions.pattern.announcements import Announcement
from functions.store.entities import announcement_of
from functions.store.faults import table_faults
from functions.store.keys import OUTBOX, outbox_row, shard_key, shard_of, sortable


class TableOutbox:
    """Reads and clears the outbox; the state store writes it."""

    def __init__(self, table: TableClient, *, shards: int, figures: StoreFigures) -> None:
        self._table = table
        self._shards = shards
        self._figures = figures

    async def untold(self, shard: int, before: datetime, most: int) -> Sequence[Announcement]:
        """Read announcements of a shard that are older than `before`, oldest first: one request."""
        self._figures.reads += 1
        pages = self._table.query_entities(
            "PartitionKey eq @shard and RowKey ge @first and RowKey lt @end",
            parameters={
                "shard": shard_key(shard),
                "first": f"{OUTBOX}|",
                "end": f"{OUTBOX}|{sortable(before)}",
            },
            results_per_page=most,
        ).by_page()
        with table_faults():
            async for page in pages:
                return [announcement_of(row) async for row in page]
        return []

    async def told(self, announcement: Announcement) -> None:
        """Delete the row of an announcement; harmless when it is gone."""
        self._figures.transactions += 1
        self._figures.operations += 1
        shard = shard_of(announcement.task, self._shards)
        try:
            with table_faults():
                await self._table.delete_entity(shard, outbox_row(announcement))
        except ResourceNotFoundError:
            return
