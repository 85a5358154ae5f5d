"""Reads the tables directly, without the application and the proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from azure.data.tables.aio import TableServiceClient

from tests.chaos.evidence.rows import TaskRows, tasks_of

#: Seconds; Azurite may be frozen.
_TIMES: dict[str, Any] = {"connection_timeout": 2, "read_timeout": 4, "retry_total": 0}


class Tables:
    """The tables of one run."""

    def __init__(self, service: TableServiceClient) -> None:
        self._tasks = service.get_table_client("Tasks")
        self._rejected = service.get_table_client("Rejected")

    @classmethod
    @asynccontextmanager
    async def at(cls, connection: str) -> AsyncIterator[Self]:
        """Open the tables until the block ends."""
        async with TableServiceClient.from_connection_string(connection, **_TIMES) as service:
            yield cls(service)

    async def shards(self) -> list[str]:
        """Return the partitions that hold tasks. Raises `AzureError`."""
        settings = await self._tasks.get_entity("!settings", "shards")
        return [f"{number:03d}" for number in range(settings["Shards"])]

    async def shard(self, shard: str) -> dict[str, TaskRows]:
        """Read one partition: a query of one partition sees a transaction whole. Raises `AzureError`."""
        query = self._tasks.query_entities("PartitionKey eq @shard", parameters={"shard": shard})
        return tasks_of([row async for row in query])

    async def tasks(self) -> dict[str, TaskRows]:
        """Read all tasks. Raises `AzureError`."""
        found = await asyncio.gather(*(self.shard(shard) for shard in await self.shards()))
        return {task: rows for tasks in found for task, rows in tasks.items()}

    async def rejected(self) -> list[dict[str, Any]]:
        """Read the rejected messages. Raises `AzureError`."""
        return [dict(row) async for row in self._rejected.list_entities()]
