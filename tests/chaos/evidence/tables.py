"""Reads the tables directly, without the application and the proxies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from azure.data.tables.aio import TableServiceClient

from tests.simulation.checks.rows import RawTask, TaskRows, tasks_of

#: In seconds; Azurite may be paused.
_TIMES: dict[str, Any] = {"connection_timeout": 2, "read_timeout": 4, "retry_backoff_factor": 0.2}
#: The columns of a look: those of the task's own row, and the task of an announcement.
_COLUMNS = [
    *("PartitionKey", "RowKey", "OrderID", "Name"),
    *(each.alias for each in RawTask.model_fields.values() if each.alias),
]


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

    async def look(self) -> dict[str, TaskRows]:
        """Read the tasks' own rows and the announcements, without closed epochs. Raises `AzureError`."""
        rows = [row for row in await self._rows(_COLUMNS) if "|epoch|" not in row["RowKey"]]
        return tasks_of(rows)

    async def tasks(self) -> tuple[dict[str, TaskRows], dict[str, str]]:
        """Read all rows of all tasks, and their run ids. Raises `AzureError`."""
        rows = await self._rows(None)
        orders = [row for row in rows if row["RowKey"].endswith("|order")]
        births = {row["RowKey"].partition("|")[0]: row["Birth"] for row in orders}
        return tasks_of(rows), births

    async def rejected(self) -> list[Mapping[str, Any]]:
        """Read the rejected messages. Raises `AzureError`."""
        return [row async for row in self._rejected.list_entities()]

    async def _rows(self, columns: list[str] | None) -> list[Any]:
        """Read the shards one by one: a query of one partition is a snapshot of it."""
        settings = await self._tasks.get_entity("!settings", "shards")
        rows = []
        for number in range(settings["Shards"]):
            keys = {"shard": f"{number:03d}"}
            found = self._tasks.query_entities("PartitionKey eq @shard", parameters=keys, select=columns)
            rows += [row async for row in found]
        return rows
