"""The map of the shards as a process knows it: read again every few seconds, and relied on for no longer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from azure.data.tables.aio import TableClient

from functions.pattern.errors import TransientError
from functions.pattern.request_figures import StoreFigures
from functions.store.connect import table_faults
from functions.store.keys import SHARD_MAP_ROW, SHARDS_PARTITION
from functions.store.shard_map import ShardMap, map_of

#: Seconds after which the map is read again before it is used.
READ_EVERY = 5

#: Seconds, from the moment at which it was asked for, for which a map may be relied on. Whoever moves a shard
#: waits longer than that between closing it and copying it.
LEASE = 15


@dataclass(frozen=True, slots=True)
class MapLease:
    """The map, and the time of the event loop at which it was asked for."""

    map: ShardMap
    since: float


class KnownMap:
    """Reads the map from the first account's table. Its methods raise `TransientError`.

    No clock of another machine matters: a lease runs by the event loop's own time.
    """

    def __init__(self, first: TableClient, figures: StoreFigures) -> None:
        self._first = first
        self._figures = figures
        self._latest: MapLease | None = None
        self._reading: asyncio.Task[MapLease] | None = None

    async def lease(self) -> MapLease:
        """Give the map, at most `READ_EVERY` seconds old; all who ask while it is read share that."""
        latest = self._latest
        if latest is not None and _now() - latest.since < READ_EVERY:
            return latest
        reading = self._reading
        if reading is None or reading.done():
            self._reading = reading = asyncio.create_task(self._read())
        self._latest = lease = await asyncio.shield(reading)
        return lease

    async def holds(self, lease: MapLease) -> bool:
        """Tell whether the map was the same from the lease's beginning until now."""
        if _now() - lease.since < LEASE:
            return True
        return (await self._read()).map.version == lease.map.version

    async def _read(self) -> MapLease:
        since = _now()
        self._figures.reads += 1
        with table_faults():
            row = await self._first.get_entity(SHARDS_PARTITION, SHARD_MAP_ROW)
        try:
            return MapLease(map_of(row), since)
        except ValueError as error:
            raise TransientError(str(error)) from error


def _now() -> float:
    return asyncio.get_running_loop().time()
