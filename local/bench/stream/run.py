"""One run: the ways compared, a spike at the hub, parts killed under way, and a replay of all."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from functions.settings import Settings
from local.bench.processes import Usage, usage_of
from local.bench.progress import Phases
from local.bench.stream.compare import WayMeasured, compare, until_idle
from local.bench.stream.evidence import StoredTasks, read_evidence
from local.bench.stream.kills import kill, take_with_kills, taken, until_all_taken, until_taken
from local.bench.stream.producers import SentOrders, Ways, both_ways, send_at_once
from local.bench.stream.workflow import LETTER, LETTERS, SETTINGS
from local.bench.workloads import Workload
from local.checkpoints import HubReaders, open_readers
from local.platform import PartName, Platform

_SHARDS = 16
#: The application with one workflow of one step, and with the hub.
STREAM = Workload(
    "stream",
    Path(__file__).with_name("function_app.py"),
    LETTERS.resource,
    LETTER,
    {
        **SETTINGS,
        "EventHubConnection": "UseDevelopmentEmulator=true",
        "SAMPLE_SERVICES": "0",
        "STATE_SHARDS": f"{_SHARDS}",
        # A busy machine would take those for lost that wait for their first turn, up to 3,200.
        "PICK_UP_SECONDS": "300",
        # A sweep reads each shard, for which Azurite looks at all rows of the table.
        "SUPERVISOR_SCHEDULE": "0 */2 * * * *",
    },
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The run on record: a spike, then kills, then a replay of the events `in_hub`."""

    events: int
    spike: SentOrders
    usage: Usage
    kills: int
    sent_again: int
    in_hub: int
    seconds: float
    replay_seconds: float
    evidence: StoredTasks
    faults: list[str]


@dataclass(frozen=True, slots=True)
class StreamMeasured:
    """Everything that one run measured; `load` is the machine's before it, from all that runs there."""

    ways: Mapping[str, WayMeasured]
    compared: StoredTasks
    recorded: Recorded
    load: tuple[float, float, float]


class StreamRun:
    """Takes so many `events` through the hub, after `orders` on each way."""

    def __init__(self, events: int, orders: int, phases: Phases) -> None:
        self._events = events
        self._orders = orders
        self._phases = phases
        self._running: Platform | None = None

    def kill_all_now(self) -> None:
        """End every part with SIGKILL without waiting."""
        if self._running is not None:
            self._running.kill_all_now()

    async def measure(self) -> StreamMeasured:
        """Measure everything, with all state in a temporary folder or in memory. Raises `PlatformError`."""
        load = os.getloadavg()
        with tempfile.TemporaryDirectory(prefix="stream-") as name:
            self._running = Platform(replace(STREAM.options(Path(name)), in_memory_storage=True))
            async with self._running as platform, AsyncExitStack() as stack:
                readers = await open_readers(stack, _settings(platform))
                ways = await stack.enter_async_context(both_ways(platform.addresses.service_bus_connection))
                measured: Mapping[str, WayMeasured] = {}
                if self._orders:
                    measured = await platform.unless_a_part_fails(
                        compare(platform, ways, self._orders, self._phases)
                    )
                compared = await read_evidence(platform.addresses.storage_connection, _SHARDS)
                recorded = await platform.unless_a_part_fails(
                    self._record(platform, ways, readers, set(compared.orders))
                )
        return StreamMeasured(measured, compared, recorded, load)

    async def _record(
        self, platform: Platform, ways: Ways, readers: HubReaders, before: set[str]
    ) -> Recorded:
        tasks, began = [f"event-{number}" for number in range(self._events)], time.perf_counter()
        storage, first = platform.addresses.storage_connection, await taken(readers)
        half = len(tasks) // 2
        phase = self._phases.begin("a spike at the hub, accepted", half)
        parts = {str(part): platform.pid(part) for part in (PartName.BROKER, PartName.HOST)}
        all_events = self._phases.begin("events taken, with kill -9 of host and broker", first + len(tasks))
        async with usage_of(parts) as usage:
            spike = await send_at_once(ways.hub, tasks[:half], phase.show)
            await until_taken(readers, first + half // 2, all_events)
        rest, _ = await asyncio.gather(
            send_at_once(ways.hub, tasks[half:]), kill(platform, [PartName.BROKER])
        )
        kills = await take_with_kills(platform, readers, first + len(tasks), all_events, self._phases.say)
        await until_idle(storage)
        seconds = time.perf_counter() - began
        evidence = await read_evidence(storage, _SHARDS)
        faults = evidence.faults(before | set(tasks))
        in_hub = await taken(readers)
        replay_seconds, again = await self._replay(platform, readers, in_hub)
        if again.digest != evidence.digest:
            faults.append(f"the replay changed rows: {evidence.rows} before, {again.rows} after it")
        return Recorded(
            events=len(tasks),
            spike=spike,
            usage=usage,
            kills=kills,
            sent_again=rest.again,
            in_hub=in_hub,
            seconds=seconds,
            replay_seconds=replay_seconds,
            evidence=evidence,
            faults=faults,
        )

    async def _replay(
        self, platform: Platform, readers: HubReaders, events: int
    ) -> tuple[float, StoredTasks]:
        """Have all events taken again; give the seconds from the host's start, and what is there then."""
        phase = self._phases.begin("events taken again", events)
        await platform.stop(PartName.HOST)
        # On a busy machine the host ends before it has released all partitions.
        await readers.move(await readers.positions.partitions(), "start", are_left=True)
        began = time.perf_counter()
        await platform.start(PartName.HOST)
        await until_taken(readers, events, phase)
        await until_all_taken(readers)
        seconds = time.perf_counter() - began
        storage = platform.addresses.storage_connection
        await until_idle(storage)
        return seconds, await read_evidence(storage, _SHARDS)


def _settings(platform: Platform) -> Settings:
    addresses = platform.addresses
    named = {
        "EventHubConnection": addresses.service_bus_connection,
        "AzureWebJobsStorage": addresses.storage_connection,
    }
    return Settings(**named)  # type: ignore[arg-type]
