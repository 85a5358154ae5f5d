"""The outbox: a row for each announcement, from the change that caused it until it is sent."""

from __future__ import annotations

from datetime import datetime

from functions.pattern.announcements import Announcement
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import OutboxPage
from functions.store.connect import table_faults
from functions.store.entities import announcement_of, readable
from functions.store.keys import OUTBOX, beyond_queue, outbox_row, shard_key
from functions.store.pages import first_rows
from functions.store.shards import Shards


class TableOutbox:
    """Reads the outbox, and gives up on rows; the state store writes them, and removes them once sent."""

    def __init__(self, shards: Shards, figures: StoreFigures) -> None:
        self._shards = shards
        self._figures = figures

    async def unsent(
        self, shard: int, before: datetime, most: int, *, after: str | None = None
    ) -> OutboxPage:
        """Read a page of announcements older than `before`; alerts come first.

        What is left of the page's last queue is passed over: a queue that takes nothing would fill all pages.
        """
        keys = {"partition": shard_key(shard), "first": after or f"{OUTBOX}|", "end": f"{OUTBOX}~"}
        page = await first_rows(self._shards.table, self._figures, keys, most)
        found, damaged = readable(announcement_of, page.rows)
        following = None
        if page.rows and page.continuation is not None:
            last = page.rows[-1]["RowKey"]
            # Where nothing could be read, the queue's next rows still have their turn.
            following = beyond_queue(last) if found else f"{last}~"
        due = tuple(announcement for announcement in found if announcement.at < before)
        return OutboxPage(due, damaged, following)

    async def give_up(self, announcement: Announcement) -> None:
        """Delete the row; harmless when it is gone (the SDK takes 404 for done)."""
        self._figures.transactions += 1
        self._figures.operations += 1
        shard = self._shards.key(announcement.task)
        with table_faults():
            await self._shards.table.delete_entity(shard, outbox_row(announcement))
