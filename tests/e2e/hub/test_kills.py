"""Events, `kill -9` of host and broker while they are read, and a replay: each order is one task.

`make stream` runs it with 100,000 events and prints its progress.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from azure.data.tables import TableServiceClient

from functions.connections import Connection
from functions.settings import Settings
from functions.storage.row_keys import shard_name
from local.checkpoints import HubReadError, HubReaders, open_readers
from local.platform import PartName
from tests.e2e.caller import rejected
from tests.e2e.hub.bench import SHARDS, HubBench, running

_EVENTS = int(os.environ.get("STREAM_EVENTS", "2000"))
_SETTINGS = {
    # A busy machine exceeds the usual limit when up to 3,200 tasks wait for their first run.
    "PICK_UP_SECONDS": "300",
    # A sweep reads each shard, for which Azurite reads all rows of the table.
    "SUPERVISOR_SCHEDULE": "0 */2 * * * *",
}
#: Parts that are killed when this share of the events was read.
_KILLS: Sequence[tuple[float, Sequence[PartName]]] = (
    (0.35, (PartName.HOST,)),
    (0.55, (PartName.BROKER,)),
    (0.75, (PartName.HOST, PartName.BROKER)),
)

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900 + _EVENTS / 5)]


# The clients do not close sockets whose connection was cut.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_killed_parts_and_a_replay_admit_each_order_once(tmp_path: Path) -> None:
    """No order is lost, doubled or rejected, all are `Processed`, and the replay changes no row."""
    async with running(tmp_path, _SETTINGS) as bench, AsyncExitStack() as stack:
        addresses = bench.platform.addresses
        settings = Settings(EventHubConnection=addresses.service_bus_connection)
        host_storage = Connection(addresses.storage_connection, None, None)
        stream = _Stream(bench, await open_readers(stack, settings, host_storage))
        await bench.platform.unless_a_part_fails(stream.run())
    gc.collect()  # such sockets, while their warnings are expected


@dataclass(frozen=True, slots=True)
class _Stream:
    bench: HubBench
    readers: HubReaders

    async def run(self) -> None:
        """Send half of the orders at once, and kill the broker while the others are sent; replay them all."""
        orders, half = self.bench.letters("event", _EVENTS), _EVENTS // 2
        await self.bench.send(orders[:half])
        await self._until_read(half // 2)
        await asyncio.gather(self.bench.send(orders[half:]), self._kill([PartName.BROKER]))
        for share, parts in _KILLS:
            await self._until_read(int(share * _EVENTS))
            await self._kill(parts)
        before = await self._rows_at_the_end(_EVENTS)
        events, platform = await self._read(), self.bench.platform
        await platform.stop(PartName.HOST)
        # On a busy machine the host ends before it has released all partitions.
        await self.readers.move(await self.readers.partitions(), "start", are_left=True)
        await platform.start(PartName.HOST)
        assert await self._rows_at_the_end(events) == before
        assert await rejected(platform) == []

    async def _rows_at_the_end(self, events: int) -> Mapping[str, str]:
        """Return the time of each row when all events are read and all tasks are processed."""
        await self._until_read(events)
        while not await self._is_all_read():
            await asyncio.sleep(0.5)
        await self.bench.until_processed()
        await asyncio.sleep(2)  # nothing follows
        return await asyncio.to_thread(self._rows)

    def _rows(self) -> Mapping[str, str]:
        """Read all shards one after another: Azurite sorts the whole table for each page of a query."""
        storage = self.bench.platform.addresses.storage_connection
        with TableServiceClient.from_connection_string(storage) as service:
            table = service.get_table_client("Tasks")
            return {
                row["RowKey"]: str(row.metadata["timestamp"])
                for shard in map(shard_name, range(SHARDS))
                for row in table.query_entities(f"PartitionKey eq '{shard}'", select=["RowKey", "Timestamp"])
            }

    async def _kill(self, parts: Sequence[PartName]) -> None:
        _say(f"kill -9 of {' and '.join(parts)} at {await self._read()} events")
        for part in parts:
            await self.bench.platform.kill(part)
        for part in reversed(parts):
            await self.bench.platform.start(part)

    async def _read(self) -> int:
        """Count the events that were read; return 0 while the storage does not answer."""
        try:
            return sum(number + 1 for number in (await self.readers.checkpoints()).values())
        except HubReadError:
            return 0

    async def _until_read(self, count: int) -> None:
        while (done := await self._read()) < count:
            _say(f"{done} of {count} events read")
            await asyncio.sleep(0.5 + _EVENTS / 10_000)

    async def _is_all_read(self) -> bool:
        """Return whether no event is left. The hub may hold more than were sent: some were repeated."""
        try:
            checkpoints = await self.readers.checkpoints()
            partitions = await self.readers.partitions()
        except HubReadError:
            return False
        return not any(each.waiting(checkpoints.get(each.id)) for each in partitions)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - progress
