"""Single rows that all instances share: heartbeats beside the table's settings, circuits elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.breaker import BreakerRecord, new_record
from functions.pattern.coalescer import Coalescer
from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.request_figures import StoreFigures
from functions.pattern.shared_rows import Chore, Occasion, StoredBreaker, Swap
from functions.store.connect import table_faults
from functions.store.entities import BREAKER, WRITE_ID, Entity
from functions.store.keys import BREAKERS, SHARDS_PARTITION, breaker_row, heartbeat_row, time_row
from functions.store.pages import every_row

_log = logging.getLogger(__name__)

_IF_UNCHANGED: dict[str, Any] = {"mode": UpdateMode.REPLACE, "match_condition": MatchConditions.IfNotModified}
_CONTENT = "Content"
#: Instances that may come first, one after the other.
_MOST_CONFLICTS = 50
#: Since when the circuit of a row that can't be read is taken to be closed.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_KEYS = frozenset({"PartitionKey", "RowKey"})


@dataclass(frozen=True, slots=True)
class VersionedRow:
    """A row as it was read; `version` guards the next write (an ETag)."""

    entity: Mapping[str, Any]
    version: str


class ConditionalRows:
    """Reads, swaps and replaces single rows. Its methods raise `TransientError`.

    A conflict is followed by a read-back, as in the state store: each swap leaves its own id on the row.
    """

    def __init__(
        self,
        table: TableClient,
        *,
        new_id: Callable[[], str],
        figures: StoreFigures,
        partition: str = SHARDS_PARTITION,
    ) -> None:
        self._table = table
        self._partition = partition
        self._new_id = new_id
        self._figures = figures

    async def read(self, key: str) -> VersionedRow | None:
        """Read a row, or None when it is not there."""
        self._figures.reads += 1
        with table_faults():
            try:
                row = await self._table.get_entity(self._partition, key)
            except ResourceNotFoundError:
                return None
        return VersionedRow(row, str(row.metadata["etag"]))

    async def every(self, prefix: str) -> Sequence[Mapping[str, Any]]:
        """Read the rows whose keys begin with `prefix|`: they are few."""
        keys = {"partition": self._partition, "first": f"{prefix}|", "end": f"{prefix}}}"}
        return [row async for row in every_row(self._table, self._figures, keys)]

    async def swap(self, entity: Entity, version: str | None) -> tuple[bool, VersionedRow | None]:
        """Write a row if it is still at `version` (None: not there); tell whether, and what is there now."""
        self._figures.operations += 1
        written = {"PartitionKey": self._partition, WRITE_ID: self._new_id(), **entity}
        with table_faults():
            try:
                if version is None:
                    answer = await self._table.create_entity(written)
                else:
                    answer = await self._table.update_entity(written, etag=version, **_IF_UNCHANGED)
            except (ResourceExistsError, ResourceModifiedError, ResourceNotFoundError):
                there = await self.read(entity["RowKey"])
                return there is not None and there.entity.get(WRITE_ID) == written[WRITE_ID], there
        return True, VersionedRow(written, str(answer["etag"]))

    async def replace(self, entity: Entity) -> None:
        """Write a row, whatever is there."""
        self._figures.operations += 1
        with table_faults():
            row = {"PartitionKey": self._partition, **entity}
            await self._table.upsert_entity(row, mode=UpdateMode.REPLACE)


class TableBreakerRows:
    """One row for each remote service whose circuit was ever open."""

    def __init__(self, rows: ConditionalRows) -> None:
        self._rows = rows

    async def read(self, service: str) -> StoredBreaker | None:
        """Read a service's row, or None when its circuit was never open."""
        return _stored(service, await self._rows.read(breaker_row(service)))

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Write the service's row if it is still at `version` (None: not there)."""
        won, there = await self._rows.swap(BREAKER.encode(breaker_row(record.service), record), version)
        return Swap(won=won, there=_stored(record.service, there))

    async def every(self) -> Sequence[BreakerRecord]:
        """Read all rows, in one request; one that can't be read is logged, and left out."""
        found: list[BreakerRecord] = []
        for row in await self._rows.every(BREAKERS):
            try:
                found.append(BREAKER.decode(row))
            except UnreadableError as error:
                _log.warning("%s", error)
        return found


class TableHeartbeats:
    """A row for each chore with the figures of its latest run; each run replaces it."""

    def __init__(self, rows: ConditionalRows) -> None:
        self._rows = rows

    async def beat(self, chore: Chore, figures: Mapping[str, Any]) -> None:
        """Replace the figures of the run before."""
        await self._rows.replace({"RowKey": heartbeat_row(chore), **figures})

    async def latest(self, chore: Chore) -> Mapping[str, Any] | None:
        """Read the latest figures by their names, or None before the first run."""
        row = await self._rows.read(heartbeat_row(chore))
        if row is None:
            return None
        return {name: value for name, value in row.entity.items() if name not in _KEYS}


class TableTimes:
    """A row for each time; of two instances that note the same one at once, one does."""

    def __init__(self, rows: ConditionalRows) -> None:
        self._rows = rows

    async def note(self, occasion: Occasion, name: str, now: datetime, every: timedelta) -> bool:
        """Keep the time, unless there is one of less than `every` ago; tell whether it was kept."""
        key = time_row(occasion, name)
        there = await self._rows.read(key)
        before = None if there is None else _time_of(there.entity)
        if before is not None and now < before + every:
            return False
        kept, _ = await self._rows.swap({"RowKey": key, "At": now}, None if there is None else there.version)
        return kept

    async def latest(self, occasion: Occasion) -> Mapping[str, datetime]:
        """Read the times of an occasion, by their names, in one request; what is none is left out."""
        times = {row["RowKey"].partition("|")[2]: _time_of(row) for row in await self._rows.every(occasion)}
        return {name: at for name, at in times.items() if at is not None}


@dataclass(frozen=True, slots=True)
class _Change:
    apply: Callable[[bytes | None], tuple[bytes, Any]]
    key: object = field(default_factory=object)  # any two can be written together
    share: float = 1 / 1000


class TableContent:
    """A row of bytes; the changes of one moment in a process are written together."""

    def __init__(self, rows: ConditionalRows, key: str) -> None:
        self._rows = rows
        self._key = key
        self._changes = Coalescer[_Change, Any](self._write)

    async def read(self) -> bytes | None:
        """Read them; None before they were written."""
        row = await self._rows.read(self._key)
        return None if row is None else row.entity.get(_CONTENT)

    async def change[ResultT](self, change: Callable[[bytes | None], tuple[bytes, ResultT]]) -> ResultT:
        """Replace what is there by what `change` makes of it; after a conflict, of what is there then."""
        result: ResultT = await self._changes.submit(_Change(change))
        return result

    async def _write(self, changes: Sequence[_Change]) -> Sequence[Any]:
        row = await self._rows.read(self._key)
        for _ in range(_MOST_CONFLICTS):
            content, results = None if row is None else row.entity.get(_CONTENT), []
            for change in changes:
                content, result = change.apply(content)
                results.append(result)
            entity = {"RowKey": self._key, _CONTENT: content}
            won, row = await self._rows.swap(entity, None if row is None else row.version)
            if won:
                return results
        raise TransientError(f"row {self._key}: too many others change it")


def _time_of(row: Mapping[str, Any]) -> datetime | None:
    """Read a time; a damaged row must hold up no reply, and no sweep."""
    at = row.get("At")
    return at if isinstance(at, datetime) else None


def _stored(service: str, row: VersionedRow | None) -> StoredBreaker | None:
    return None if row is None else StoredBreaker(_record(service, row.entity), row.version)


def _record(service: str, row: Mapping[str, Any]) -> BreakerRecord:
    """Read a record; one that is damaged is as good as none, and the next write replaces it.

    It must fail no call, and a limit that can't be shared would stop them all.
    """
    try:
        return BREAKER.decode(row)
    except UnreadableError as error:
        _log.warning("%s", error)
        return new_record(service, _LONG_AGO)
