"""The rows of the circuit breakers, which all instances share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableEntity, UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.errors import TransientError
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import StoredBreaker, Swap
from functions.store.entities import WRITE_ID, Entity
from functions.store.faults import table_faults
from functions.store.keys import BREAKERS, SHARDS_PARTITION, breaker_row
from functions.store.pages import read_page


class TableBreakerRows:
    """One row for each service in the table of the tasks, beside its settings.

    A conflict is followed by a read-back: a write whose answer was lost, and which the SDK repeated,
    conflicts with itself. Each write leaves its own id on the row.
    """

    def __init__(self, table: TableClient, *, new_id: Callable[[], str], figures: StoreFigures) -> None:
        self._table = table
        self._new_id = new_id
        self._figures = figures

    async def read(self, service: str) -> StoredBreaker | None:
        """Read a service's row, or None when it was never left alone."""
        row = await self._row(service)
        return None if row is None else _stored(row)

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Write the service's row if it is still at `version` (None: not there)."""
        self._figures.operations += 1
        write_id = self._new_id()
        with table_faults():
            try:
                written = await self._put(_entity(record, write_id), version)
            except (ResourceExistsError, ResourceModifiedError, ResourceNotFoundError):
                return await self._read_back(record.service, write_id)
        return Swap(won=True, there=StoredBreaker(record, str(written["etag"])))

    async def every(self) -> Sequence[BreakerRecord]:
        """Read all rows, in one request: there are few services."""
        self._figures.reads += 1
        rows = self._table.query_entities(
            "PartitionKey eq @partition and RowKey ge @first and RowKey lt @end",
            parameters={"partition": SHARDS_PARTITION, "first": f"{BREAKERS}|", "end": f"{BREAKERS}}}"},
        )
        with table_faults():
            page = await read_page(rows, None)
        return [_record(row) for row in page.rows]

    async def _row(self, service: str) -> TableEntity | None:
        self._figures.reads += 1
        with table_faults():
            try:
                return await self._table.get_entity(SHARDS_PARTITION, breaker_row(service))
            except ResourceNotFoundError:
                return None

    async def _put(self, row: Entity, version: str | None) -> Mapping[str, Any]:
        if version is None:
            return await self._table.create_entity(row)
        return await self._table.update_entity(
            row, mode=UpdateMode.REPLACE, etag=version, match_condition=MatchConditions.IfNotModified
        )

    async def _read_back(self, service: str, write_id: str) -> Swap:
        row = await self._row(service)
        if row is None:
            return Swap(won=False, there=None)
        return Swap(won=row.get(WRITE_ID) == write_id, there=_stored(row))


def _entity(record: BreakerRecord, write_id: str) -> Entity:
    row = {
        "PartitionKey": SHARDS_PARTITION,
        "RowKey": breaker_row(record.service),
        "SchemaVersion": 1,
        "Service": record.service,
        "State": str(record.state),
        "Since": record.since,
        "Failures": record.failures,
        "ProbeAt": record.probe_at,
        "LastError": record.last_error,
        WRITE_ID: write_id,
    }
    return {name: value for name, value in row.items() if value is not None}


def _stored(row: TableEntity) -> StoredBreaker:
    return StoredBreaker(_record(row), str(row.metadata["etag"]))


def _record(row: Mapping[str, Any]) -> BreakerRecord:
    """Read a record; a row that was damaged must fail no call, and is as good as none."""
    try:
        return BreakerRecord(
            service=row["Service"],
            state=BreakerState(row["State"]),
            since=row["Since"],
            failures=row["Failures"],
            probe_at=row.get("ProbeAt"),
            last_error=row.get("LastError"),
        )
    except (KeyError, ValueError) as error:
        raise TransientError(f"row {row['RowKey']} can't be read: {error!r}") from error
