"""The evidence of a run: the tables, read directly, and the wait until the platform has settled."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Self

import aiohttp
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient

from functions.core.derive import derive
from functions.core.record import TaskRecord
from functions.messaging.rejected_messages import REJECTED_TABLE, RejectedMessage, RejectedMessages
from functions.storage.azure_table import AzureTable, StorageSession
from functions.storage.index_pages import every_page
from functions.storage.record_rows import stored_task
from functions.storage.row_keys import ALL_TASKS, OUTBOX, shard_name
from functions.storage.table_contract import Row, RowQuery, StorageError, TransientStorageError
from functions.table_accounts import TASKS_TABLE
from tests.chaos.callers import REPLY_QUEUE, Callers

_MOST_REJECTED = 100
_LOOK_EVERY = 3.0
_TIMEOUT = aiohttp.ClientTimeout(total=60)


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


async def settle(tables: Tables, admin: str, callers: Callers, within: float) -> tuple[float, Sequence[str]]:
    """Wait at most `within` seconds; return the seconds that it took, and a line for each leftover."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with aiohttp.ClientSession(admin, timeout=_TIMEOUT) as session:
        while True:
            unanswered = [f"{order}: its caller has no answer" for order in sorted(callers.waiting)]
            orders = [order.id for order in callers.orders]
            leftovers = [*unanswered, *await _in_tables(tables, orders), *await _in_queues(session)]
            seconds = loop.time() - start
            if not leftovers or seconds > within:
                return seconds, leftovers
            await asyncio.sleep(_LOOK_EVERY)


async def _in_tables(tables: Tables, orders: Collection[str]) -> list[str]:
    try:
        records, unsent = await tables.records(), await tables.unsent()
    except StorageError as error:
        return [f"the tables do not answer ({type(error).__name__})"]
    leftovers = [f"{order}: it has no task" for order in orders if order not in records]
    for task, record in records.items():
        if record.finished_at is None:
            state = f"{derive(record).state} in epoch {record.epoch}: {record.reason}"
            leftovers.append(f"{task}: {state}")
    return [*leftovers, *(f"message {key} is not sent" for key in unsent)]


async def _in_queues(session: aiohttp.ClientSession) -> list[str]:
    """Name the queues that hold messages, except the notices, which are read after the run."""
    async with session.get("/queues", raise_for_status=True) as answer:
        queues = await answer.json()
    leftovers = []
    for queue in queues:
        waiting = queue["dead_lettered"]
        if queue["name"] != REPLY_QUEUE:
            waiting += queue["active"] + queue["scheduled"] + queue["deferred"]
        if waiting:
            leftovers.append(f"queue {queue['name']} holds {waiting} messages")
    return leftovers
