"""Run the benchmark: each workload, and the door, on a platform of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from local.bench.door import DOOR, SPIKE_AT_ONCE, DoorMeasured, measure_door
from local.bench.host_figures import Sessions
from local.bench.orders import OrderSender, OrdersMeasured, connect
from local.bench.pauses import longest_pause
from local.bench.processes import resident_size
from local.bench.profile import flame_graph
from local.bench.workloads import FIVE_STEPS, ORDERS, Workload
from local.platform import PartName, Platform
from local.platform.parts import HOSTS
from local.progress import Phase, Phases

#: Orders per second.
_SLOW_RATE = 10


@dataclass(frozen=True, slots=True)
class WorkloadMeasured:
    """The measurements of one workload, by the names of its phases.

    `resident` has the memory of each process after them, in MiB. `longest_pause` is the longest of all hosts,
    in seconds.
    """

    name: str
    phases: Mapping[str, OrdersMeasured]
    resident: Mapping[str, float]
    longest_pause: float


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The measurements of one run; `load` has the machine's load averages before it."""

    workloads: tuple[WorkloadMeasured, ...]
    door: DoorMeasured
    load: tuple[float, float, float]

    @property
    def all_processed(self) -> bool:
        """Whether every order was processed, and every order of the door is on its queue."""
        phases = [phase for each in self.workloads for phase in each.phases.values()]
        return all(phase.processed == phase.count for phase in phases) and self.door.lost == 0


class BenchRun:
    """Measures `orders` orders at once, and `spike` orders at the door.

    The orders are sent to `hosts` hosts in turn; the door has one. With a `profile`, it samples the first
    host in a phase of its own, since sampling slows the host down. With `in_memory`, the table store saves
    nothing.
    """

    def __init__(
        self, orders: int, spike: int, phases: Phases, profile: Path | None, hosts: int, *, in_memory: bool
    ) -> None:
        self._orders = orders
        self._spike = spike
        self._phases = phases
        self._profile = profile
        self._hosts = hosts
        self._in_memory = in_memory
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
            async with self._platform(DOOR, Path(folder) / "door", 1, SPIKE_AT_ONCE) as (platform, sessions):
                door = await platform.unless_a_part_fails(
                    measure_door(platform, sessions[0], self._spike, self._phases)
                )
        return BenchResult((orders, five_steps), door, load)

    async def _workload(
        self, workload: Workload, folder: Path, profile: Path | None = None
    ) -> WorkloadMeasured:
        async with self._platform(workload, folder / workload.resource, self._hosts) as (platform, sessions):
            measured = await platform.unless_a_part_fails(self._phases_of(workload, platform, sessions))
            if profile is not None:
                phase = self._phases.begin(f"{workload.name}, sampled", self._orders)
                async with flame_graph(platform.pid(PartName.HOST), profile):
                    await platform.unless_a_part_fails(OrderSender(sessions, workload, {}).all_at_once(phase))
            return measured

    async def _phases_of(
        self, workload: Workload, platform: Platform, sessions: Sessions
    ) -> WorkloadMeasured:
        def begin(phase: str, total: int) -> Phase:
            return self._phases.begin(f"{workload.name}, {phase}", total)

        parts = (*HOSTS[: self._hosts], PartName.BROKER, PartName.AZURITE)
        processes = {**{str(part): platform.pid(part) for part in parts}, "client": os.getpid()}
        orders, some = OrderSender(sessions, workload, processes), min(self._orders, 200)
        await orders.all_at_once(begin("to warm up", 50 * self._hosts))
        alone = await orders.one_at_a_time(begin("one at a time", 20))
        full = await orders.all_at_once(begin("at once", self._orders))
        half = await orders.at_rate(begin("half load", some), full.finished_rate / 2)
        slow = await orders.at_rate(begin(f"{_SLOW_RATE} orders/s", some), _SLOW_RATE)
        phases = {
            "one at a time": alone,
            f"{self._orders} at once": full,
            "half of that rate": half,
            f"{_SLOW_RATE} orders/s": slow,
        }
        pause = max([await longest_pause(session) for session in sessions])
        return WorkloadMeasured(workload.name, phases, resident_size(processes), pause)

    @asynccontextmanager
    async def _platform(
        self, workload: Workload, folder: Path, hosts: int, connections: int = 50
    ) -> AsyncIterator[tuple[Platform, list[aiohttp.ClientSession]]]:
        options = workload.options(folder)
        ports = options.ports.with_hosts(hosts)
        with (options.app / "function_app.py").open("a", encoding="utf-8") as entry:
            entry.write("\nfrom local.bench.pauses import serve_longest_pause\n\nserve_longest_pause(app)\n")
        self._running = Platform(replace(options, ports=ports, in_memory_storage=self._in_memory))
        async with AsyncExitStack() as stack:
            platform = await stack.enter_async_context(self._running)
            urls = platform.addresses.hosts
            yield platform, [await stack.enter_async_context(connect(url, connections)) for url in urls]
