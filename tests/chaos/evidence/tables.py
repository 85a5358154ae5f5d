"""Reads the tables directly, without the application and the proxies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, Self

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables.aio import TableServiceClient

from tests.chaos.evidence.alerts import PostedAlert, summary
from tests.chaos.evidence.rows import LOOKED_AT, TaskRows, is_epoch, tasks_of

#: Seconds; Azurite may be frozen.
_TIMES: dict[str, Any] = {"connection_timeout": 2, "read_timeout": 4, "retry_backoff_factor": 0.2}


class Tables:
    """The tables of one run."""

    def __init__(self, service: TableServiceClient) -> None:
        self._tasks = service.get_table_client("Tasks")
        self._rejected = service.get_table_client("Rejected")

    @classmethod
    @asynccontextmanager
    async def at(cls, connection: str, *, retries: int = 0) -> AsyncIterator[Self]:
        """Open the tables until the block ends."""
        opened = TableServiceClient.from_connection_string(connection, **_TIMES, retry_total=retries)
        async with opened as service:
            yield cls(service)

    async def shards(self) -> list[str]:
        """Return the partitions that hold tasks. Raises `AzureError`."""
        settings = await self._tasks.get_entity("!settings", "shards")
        return [f"{number:03d}" for number in range(settings["Shards"])]

    async def look(self, shard: str) -> dict[str, TaskRows]:
        """Read one partition for little work: tasks, and which rows they have. Raises `AzureError`.

        A query of one partition sees a transaction whole. Of ended epochs, nothing is read.
        """
        return tasks_of(await self._look(shard))

    async def _look(self, shard: str) -> list[Any]:
        return [row for row in await self._shard(shard, columns=LOOKED_AT) if not is_epoch(row)]

    async def look_at_all(self) -> dict[str, TaskRows]:
        """Read all tasks, partition by partition, for little work. Raises `AzureError`."""
        found = [await self._look(shard) for shard in await self.shards()]
        return tasks_of(chain(*found))

    async def tasks(self) -> dict[str, TaskRows]:
        """Read everything of all tasks. Raises `AzureError`.

        A task that is recorded in two shards has all its rows twice, so it is not complete.
        """
        found = await asyncio.gather(*(self._shard(shard) for shard in await self.shards()))
        return tasks_of(chain(*found))

    async def _shard(self, shard: str, columns: list[str] | None = None) -> list[Any]:
        keys = {"shard": shard}
        found = self._tasks.query_entities("PartitionKey eq @shard", parameters=keys, select=columns)
        return [row async for row in found]

    async def waiting_alerts(self) -> list[PostedAlert]:
        """Read the alerts that wait for their summary. Raises `AzureError`."""
        try:
            row = await self._tasks.get_entity("!settings", "alert-minute")
        except ResourceNotFoundError:
            return []
        minute = json.loads(row["Content"])
        return [summary(minute["waiting"], minute["since"], "waiting")]

    async def rejected(self) -> list[dict[str, Any]]:
        """Read the rejected messages. Raises `AzureError`."""
        return [dict(row) async for row in self._rejected.list_entities()]
