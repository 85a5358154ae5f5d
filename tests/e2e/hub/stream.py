"""Send events to the hub, kill host and broker while they are read, and replay all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from functions.connections import Connection
from functions.settings import Settings
from local.checkpoints import HubReadError, HubReaders, open_readers
from local.platform import PartName, Platform
from tests.e2e.hub.evidence import StoredTasks, read_evidence, until_idle
from tests.e2e.hub.letters import letter, workload
from tests.e2e.hub.senders import Senders, send_until_accepted, senders

_SHARDS = 16
#: Parts that are killed when this share of the events was read.
_KILLS: Sequence[tuple[float, Sequence[PartName]]] = (
    (0.35, (PartName.HOST,)),
    (0.55, (PartName.BROKER,)),
    (0.75, (PartName.HOST, PartName.BROKER)),
)

type Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Streamed:
    """The store after all events, and after their replay."""

    first: StoredTasks
    replayed: StoredTasks
    kills: int


async def stream(folder: Path, tasks: Sequence[str], say: Say) -> Streamed:
    """Run a platform with its app in `folder`, and send these orders through its hub. Raises `PlatformError`.

    Half of the orders arrive at once. The broker is killed while the other half is sent.
    """
    options = replace(workload(_SHARDS).options(folder), in_memory_storage=True)
    async with Platform(options) as platform, AsyncExitStack() as stack:
        addresses = platform.addresses
        settings = Settings(EventHubConnection=addresses.service_bus_connection)
        host_storage = Connection(addresses.storage_connection, None, None)
        readers = await open_readers(stack, settings, host_storage)
        to_hub = await stack.enter_async_context(senders(addresses.service_bus_connection))
        return await platform.unless_a_part_fails(_Stream(platform, readers, to_hub, say).run(tasks))


@dataclass(frozen=True, slots=True)
class _Stream:
    platform: Platform
    readers: HubReaders
    to_hub: Senders
    say: Say

    async def run(self, tasks: Sequence[str]) -> Streamed:
        begun, half = time.perf_counter(), len(tasks) // 2
        storage = self.platform.addresses.storage_connection
        orders = map(letter, tasks)
        await send_until_accepted(self.to_hub.hub, islice(orders, half))
        self.say(f"{half} events accepted after {time.perf_counter() - begun:.1f} s")
        await self._until_read(half // 2)
        await asyncio.gather(send_until_accepted(self.to_hub.hub, orders), self._kill([PartName.BROKER]))
        for share, parts in _KILLS:
            await self._until_read(int(share * len(tasks)))
            await self._kill(parts)
        await self._until_read(len(tasks))
        await self._until_all_read()
        await until_idle(storage)
        seconds = time.perf_counter() - begun
        self.say(f"all processed after {seconds:.0f} s, {len(tasks) / seconds:.0f} orders/s")
        first = await read_evidence(storage, _SHARDS)
        await self._replay(await self._read())
        await until_idle(storage)
        return Streamed(first, await read_evidence(storage, _SHARDS), kills=len(_KILLS) + 1)

    async def _replay(self, events: int) -> None:
        """Set all checkpoints to the start, and wait until the host has read all events again."""
        await self.platform.stop(PartName.HOST)
        # On a busy machine the host ends before it has released all partitions.
        await self.readers.move(await self.readers.partitions(), "start", are_left=True)
        begun = time.perf_counter()
        await self.platform.start(PartName.HOST)
        await self._until_read(events)
        await self._until_all_read()
        self.say(f"replay: {events / (time.perf_counter() - begun):.0f} events/s")

    async def _kill(self, parts: Sequence[PartName]) -> None:
        self.say(f"kill -9 of {' and '.join(parts)} at {await self._read()} events")
        for part in parts:
            await self.platform.kill(part)
        for part in reversed(parts):
            await self.platform.start(part)

    async def _read(self) -> int:
        """Count the events that were read; return 0 while the storage does not answer."""
        try:
            return sum(number + 1 for number in (await self.readers.checkpoints()).values())
        except HubReadError:
            return 0

    async def _until_read(self, count: int) -> None:
        said = time.monotonic()
        while (done := await self._read()) < count:
            if time.monotonic() > said + 30:
                said = time.monotonic()
                self.say(f"{done} of {count} events read")
            await asyncio.sleep(0.5)

    async def _until_all_read(self) -> None:
        """Wait until the hub has no event left: it may hold more than were sent, as some were sent again."""
        while True:
            try:
                checkpoints = await self.readers.checkpoints()
                partitions = await self.readers.partitions()
            except HubReadError:
                partitions, checkpoints = [], {}
            if partitions and not any(each.waiting(checkpoints.get(each.id)) for each in partitions):
                return
            await asyncio.sleep(0.5)
