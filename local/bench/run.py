"""One run of the benchmark: each workload on a platform of its own, then the Durable engine alone."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from local.bench.cpu_by_part import HostPart, cpu_shares
from local.bench.door.measure import DOOR, SPIKE_AT_ONCE, DoorMeasured, measure_door
from local.bench.engine import engine_rate, host_alone
from local.bench.flame_graph import flame_graph
from local.bench.orders import OrdersMeasured, all_at_once, connect, one_at_a_time
from local.bench.processes import Usage, usage_of
from local.bench.progress import Phases
from local.bench.start_times import StartTimes, import_seconds
from local.bench.workloads import FIVE_STEPS, ORDERS, Workload
from local.platform import ANY_PORTS, ROOT, PartName, Platform, PlatformOptions
from local.platform.blueprint import Blueprint, whole_platform
from local.platform.settings import application_settings

_ONE_AT_A_TIME = 20
_WARM_UP = 50


@dataclass(frozen=True, slots=True)
class WorkloadMeasured:
    """The measurements of one workload; `usage` is that of the orders at once."""

    name: str
    alone: OrdersMeasured
    at_once: OrdersMeasured
    usage: Usage


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Everything that one run measured; the engine's rates are orchestrations per second."""

    workloads: tuple[WorkloadMeasured, ...]
    start: StartTimes
    engine_one_activity: float
    engine_five_activities: float
    #: Of five steps' CPU time in the host; empty without a flame graph.
    host_shares: Mapping[HostPart, float]
    door: DoorMeasured

    @property
    def all_processed(self) -> bool:
        """Whether every order of the run was processed, or is on its queue still."""
        phases = [phase for each in self.workloads for phase in (each.alone, each.at_once)]
        return all(phase.processed == phase.count for phase in phases) and self.door.lost == 0


class BenchRun:
    """Measures so many orders at once, and a `spike` at the door alone.

    With a `profile`, it draws there what the host does with five steps.

    The flame graph has a phase of its own, because sampling slows the host down.
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
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            folder = Path(name)
            five_steps, shares = await self._five_steps(folder / "five-steps")
            orders, start = await self._sample_orders(folder / "orders")
            one, five = await self._engine_alone(folder / "engine")
            door = await self._door(folder / "door")
        return BenchResult((orders, five_steps), start, one, five, shares, door)

    async def _door(self, folder: Path) -> DoorMeasured:
        async with (
            self._platform(DOOR.options(folder)) as (platform, _),
            connect(platform.addresses.host, SPIKE_AT_ONCE) as session,
        ):
            return await platform.unless_a_part_fails(
                measure_door(platform, session, self._spike, self._phases)
            )

    async def _five_steps(self, folder: Path) -> tuple[WorkloadMeasured, Mapping[HostPart, float]]:
        async with self._platform(FIVE_STEPS.options(folder)) as (platform, session):
            measured = await self._workload(FIVE_STEPS, platform, session)
            if self._profile is None:
                return measured, {}
            await platform.unless_a_part_fails(self._draw(platform, session, self._profile))
            return measured, cpu_shares(await asyncio.to_thread(self._profile.read_text, encoding="utf-8"))

    async def _draw(self, platform: Platform, session: aiohttp.ClientSession, file: Path) -> None:
        phase = self._phases.begin("five steps, sampled", self._orders)
        title = f"Functions host, {self._orders} orders of five steps at once: what holds the interpreter"
        async with flame_graph(platform.pid(PartName.HOST), file, title):
            await all_at_once(session, FIVE_STEPS, phase)

    async def _sample_orders(self, folder: Path) -> tuple[WorkloadMeasured, StartTimes]:
        options, begun = ORDERS.options(folder), time.perf_counter()
        async with self._platform(options) as (platform, session):
            ready = time.perf_counter() - begun
            settings = application_settings(ROOT, os.environ, platform.addresses, options.settings)
            start = StartTimes(await import_seconds(settings), ready)
            return await self._workload(ORDERS, platform, session), start

    async def _workload(
        self, workload: Workload, platform: Platform, session: aiohttp.ClientSession
    ) -> WorkloadMeasured:
        return await platform.unless_a_part_fails(self._phases_of(workload, platform, session))

    async def _phases_of(
        self, workload: Workload, platform: Platform, session: aiohttp.ClientSession
    ) -> WorkloadMeasured:
        begin, name = self._phases.begin, workload.name
        await all_at_once(session, workload, begin(f"{name}, to warm up", _WARM_UP))
        alone = await one_at_a_time(session, workload, begin(f"{name}, one at a time", _ONE_AT_A_TIME))
        processes = {
            str(part): platform.pid(part) for part in (PartName.AZURITE, PartName.BROKER, PartName.HOST)
        }
        async with usage_of(processes) as usage:
            at_once = await all_at_once(session, workload, begin(f"{name}, at once", self._orders))
        return WorkloadMeasured(name, alone, at_once, usage)

    async def _engine_alone(self, folder: Path) -> tuple[float, float]:
        options, begin = PlatformOptions(ports=ANY_PORTS, data=folder), self._phases.begin
        async with self._platform(options, host_alone) as (_, session):
            one = await engine_rate(session, "one_activity", begin("engine, one activity", self._orders))
            five = await engine_rate(
                session, "five_activities", begin("engine, five activities", self._orders)
            )
            return one, five

    @asynccontextmanager
    async def _platform(
        self, options: PlatformOptions, blueprint: Blueprint = whole_platform
    ) -> AsyncIterator[tuple[Platform, aiohttp.ClientSession]]:
        """Run a platform, and a session with its host."""
        self._running = Platform(options, blueprint)
        async with self._running as platform, connect(platform.addresses.host) as session:
            yield platform, session
