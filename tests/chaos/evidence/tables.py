"""Reads the tables directly, without the application and the proxies. Reads raise `TransientStorageError`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Self

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient

from functions.core.record import TaskRecord
from functions.messaging.rejected_messages import REJECTED_TABLE, RejectedMessage, RejectedMessages
from functions.storage.azure_table import AzureTable, StorageSession
from functions.storage.index_pages import every_page
from functions.storage.record_rows import stored_task
from functions.storage.row_keys import ALL_TASKS, OUTBOX, shard_name
from functions.storage.table_contract import Row, RowQuery, TransientStorageError
from functions.table_setup import TASKS_TABLE

_MOST_REJECTED = 100


class Tables:
    """The tables of one run."""

    def __init__(self, session: StorageSession) -> None:
        self._tasks = AzureTable(session, TASKS_TABLE)
        self._rejected = RejectedMessages(AzureTable(session, REJECTED_TABLE), lambda: datetime.now(UTC))

    @classmethod
    @asynccontextmanager
    async def at(cls, connection: str) -> AsyncIterator[Self]:
        """Open the tables of an account until the block ends."""
        with TableServiceClient.from_connection_string(connection) as service:
            credential = service.credential
            assert isinstance(credential, AzureNamedKeyCredential)
            session = StorageSession(service.url, credential)
            try:
                yield cls(session)
            finally:
                await session.aclose()

    async def records(self) -> dict[str, TaskRecord]:
        """Return all tasks. A shard is one page, which is a snapshot. Raises `CorruptRowError`."""
        by_task = defaultdict[str, list[Row]](list)
        for row in await self._rows(ALL_TASKS):
            by_task[str(row["RowKey"]).partition("|")[0]].append(row)
        found = {task: stored_task(rows, task) for task, rows in by_task.items()}
        return {task: stored.record for task, stored in found.items() if stored is not None}

    async def unsent(self) -> list[str]:
        """Return the keys of messages that are recorded and not sent."""
        return [str(row["RowKey"]) for row in await self._rows(OUTBOX)]

    async def rejected(self) -> Sequence[RejectedMessage]:
        """Return the rejected messages."""
        return (await self._rejected.listed((), _MOST_REJECTED)).messages

    async def _rows(self, query: RowQuery) -> list[Row]:
        settings = await self._tasks.read("!settings", "shards")
        if settings is None:
            raise TransientStorageError("the table is not prepared yet")
        shards = map(shard_name, range(int(settings["Shards"])))
        pages = [page for shard in shards async for page in every_page(self._tasks, shard, query)]
        return [row for page in pages for row in page.rows]
