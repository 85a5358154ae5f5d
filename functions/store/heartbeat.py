"""The row with the figures of the Supervisor's latest sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.request_figures import StoreFigures
from functions.store.faults import table_faults
from functions.store.keys import SHARDS_PARTITION

_ROW = "supervisor-heartbeat"
_KEYS = frozenset({"PartitionKey", "RowKey"})


class TableHeartbeat:
    """One row in the table of the tasks, beside its settings; each sweep replaces it."""

    def __init__(self, table: TableClient, *, figures: StoreFigures) -> None:
        self._table = table
        self._figures = figures

    async def beat(self, figures: Mapping[str, Any]) -> None:
        """Put the figures in the place of those of the sweep before. Raises `TransientError`."""
        self._figures.operations += 1
        row = {"PartitionKey": SHARDS_PARTITION, "RowKey": _ROW, **figures}
        with table_faults():
            await self._table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def latest(self) -> Mapping[str, Any] | None:
        """Read the latest figures by their names, or None before the first sweep."""
        self._figures.reads += 1
        with table_faults():
            try:
                row = await self._table.get_entity(SHARDS_PARTITION, _ROW)
            except ResourceNotFoundError:
                return None
        return {name: value for name, value in row.items() if name not in _KEYS}
