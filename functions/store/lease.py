"""The row that Supervisors compete for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.request_figures import StoreFigures
from functions.store.faults import table_faults
from functions.store.keys import SHARDS_PARTITION
from functions.supervisor.lease import StoredTenure, Tenure

_ROW = "supervisor-lease"


class TableLeaseRow:
    """One row in the table of the tasks, beside its settings."""

    def __init__(self, table: TableClient, *, figures: StoreFigures) -> None:
        self._table = table
        self._figures = figures

    async def read(self) -> StoredTenure | None:
        """Read the row, or None when nobody has ever led."""
        self._figures.reads += 1
        with table_faults():
            try:
                row = await self._table.get_entity(SHARDS_PARTITION, _ROW)
            except ResourceNotFoundError:
                return None
        return StoredTenure(Tenure(row["Holder"], row["Until"]), str(row.metadata["etag"]))

    async def write(self, tenure: Tenure, version: str | None) -> StoredTenure | None:
        """Write the row if it is still at `version` (None: not there), or give None when it is not."""
        self._figures.operations += 1
        row = {
            "PartitionKey": SHARDS_PARTITION,
            "RowKey": _ROW,
            "Holder": tenure.holder,
            "Until": tenure.until,
        }
        with table_faults():
            try:
                written = await self._put(row, version)
            except (ResourceExistsError, ResourceModifiedError, ResourceNotFoundError):
                return None
        return StoredTenure(tenure, str(written["etag"]))

    async def _put(self, row: dict[str, Any], version: str | None) -> Mapping[str, Any]:
        if version is None:
            return await self._table.create_entity(row)
        return await self._table.update_entity(
            row, mode=UpdateMode.REPLACE, etag=version, match_condition=MatchConditions.IfNotModified
        )
