"""Run the benchmark: each workload, and the door, on a platform of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from local.bench.door import DOOR, SPIKE_AT_ONCE, DoorMeasured, measure_door
from local.bench.orders import OrdersMeasured, all_at_once, connect, one_at_a_time
from local.bench.processes import Usage, usage_of
from local.bench.profile import flame_graph
from local.bench.workloads import FIVE_STEPS, ORDERS, Workload
from local.platform import PartName, Platform
from local.progress import Phases


@dataclass(frozen=True, slots=True)
class WorkloadMeasured:
    """The measurements of one workload; `usage` is that of the orders at once."""

    name: str
    alone: OrdersMeasured
    at_once: OrdersMeasured
    usage: Usage


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The measurements of one run; `load` has the machine's load averages before it."""

    workloads: tuple[WorkloadMeasured, ...]
    door: DoorMeasured
    load: tuple[float, float, float]

    @property
    def all_processed(self) -> bool:
        """Whether every order was processed, and every order of the door is on its queue."""
        phases = [phase for each in self.workloads for phase in (each.alone, each.at_once)]
        return all(phase.processed == phase.count for phase in phases) and self.door.lost == 0


class BenchRun:
    """Measures `orders` orders at once, and `spike` orders at the door.

    With a `profile`, it samples the host in a phase of its own, since sampling slows the host down.
    """

    def __init__(self, orders: int, spike: int, phases: Phases, profile: Path | None = None) -> None:
        self._orders = orders
        self._spike = spike
        self._phases = phases
        self._profile = profile
        self._running: Platform | None = None

    def kill_all_now(self) -> None:
        """End every part with SIGKILL without waiting."""
        if self._running is not None:
            self._running.kill_all_now()

    async def measure(self) -> BenchResult:
        """Measure everything; all state is in a temporary folder. Raises `PlatformError`, `TimeoutError`."""
        load = os.getloadavg()
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            five_steps = await self._workload(FIVE_STEPS, Path(folder), self._profile)
            orders = await self._workload(ORDERS, Path(folder))
            async with self._platform(DOOR, Path(folder) / "door", SPIKE_AT_ONCE) as (platform, session):
                door = await platform.unless_a_part_fails(
                    measure_door(platform, session, self._spike, self._phases)
                )
        return BenchResult((orders, five_steps), door, load)

    async def _workload(
        self, workload: Workload, folder: Path, profile: Path | None = None
    ) -> WorkloadMeasured:
        async with self._platform(workload, folder / workload.resource) as (platform, session):
            measured = await platform.unless_a_part_fails(self._phases_of(workload, platform, session))
            if profile is not None:
                phase = self._phases.begin(f"{workload.name}, sampled", self._orders)
                async with flame_graph(platform.pid(PartName.HOST), profile):
                    await platform.unless_a_part_fails(all_at_once(session, workload, phase))
            return measured

    async def _phases_of(
        self, workload: Workload, platform: Platform, session: aiohttp.ClientSession
    ) -> WorkloadMeasured:
        begin, name = self._phases.begin, workload.name
        await all_at_once(session, workload, begin(f"{name}, to warm up", 50))
        alone = await one_at_a_time(session, workload, begin(f"{name}, one at a time", 20))
        parts = (PartName.AZURITE, PartName.BROKER, PartName.HOST)
        async with usage_of({str(part): platform.pid(part) for part in parts}) as usage:
            at_once = await all_at_once(session, workload, begin(f"{name}, at once", self._orders))
        return WorkloadMeasured(name, alone, at_once, usage)

    @asynccontextmanager
    async def _platform(
        self, workload: Workload, folder: Path, connections: int = 50
    ) -> AsyncIterator[tuple[Platform, aiohttp.ClientSession]]:
        self._running = Platform(workload.options(folder))
        async with (
            self._running as platform,
            connect(platform.addresses.host, connections) as session,
        ):
            yield platform, session
