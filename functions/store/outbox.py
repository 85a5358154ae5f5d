"""The outbox: a row for each announcement, from the change that caused it until it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from azure.data.tables.aio import TableClient

from functions.pattern.announcements import Announcement
from functions.pattern.errors import UnwritableError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.request_figures import StoreFigures
from functions.store.connect import table_faults
from functions.store.entities import announcement_of, sent_entity
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import Operation
from functions.store.keys import OUTBOX, order_row, outbox_row, shard_key, shard_of
from functions.store.pages import KEYS_BETWEEN, read_page
from functions.store.transactions import Conflicted, ShardWriter, Transaction


class TableOutbox:
    """Reads the outbox, and removes its rows; the state store writes them."""

    def __init__(
        self, table: TableClient, groups: EntityGroups, *, shards: int, figures: StoreFigures, clock: Clock
    ) -> None:
        self._table = table
        self._groups = groups
        self._shards = shards
        self._figures = figures
        self._clock = clock

    async def unsent(self, shard: int, before: datetime, most: int) -> Sequence[Announcement]:
        """Read announcements older than `before` in one request; alerts come first, and are never held up."""
        keys = {"partition": shard_key(shard), "first": f"{OUTBOX}|", "end": f"{OUTBOX}~"}
        page = await read_page(self._table, self._figures, KEYS_BETWEEN, keys, most=most)
        found = [announcement_of(row) for row in page.rows]
        return [announcement for announcement in found if announcement.at < before]

    async def mark_sent(self, announcement: Announcement) -> None:
        """Replace the row by a mark with the time now; harmless when another process has done so.

        A task that was purged meanwhile gets no mark: it would be shown for another task under its id.
        """
        task = announcement.task
        operations = (
            Operation("touch", {"RowKey": order_row(task)}),
            Operation("upsert", sent_entity(announcement, self._clock.now())),
            Operation("delete", {"RowKey": outbox_row(announcement)}),
        )
        with table_faults():
            [result] = await self._writer(task).commit([Transaction(task, operations)])
        match result:
            case Conflicted():
                await self.give_up(announcement)
            case UnwritableError():
                raise result

    async def give_up(self, announcement: Announcement) -> None:
        """Delete the row; harmless when it is gone."""
        task = announcement.task
        with table_faults():
            await self._writer(task).delete(task, [Operation("delete", {"RowKey": outbox_row(announcement)})])

    def _writer(self, task: TaskId) -> ShardWriter:
        return ShardWriter(self._groups, shard_of(task, self._shards), self._figures)
