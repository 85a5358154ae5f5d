"""The command `python -m local bench`: each workload, and the door, on a platform of its own; two tables."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import aiohttp
import psutil
from rich.console import Console
from rich.table import Table

from local.bench.door import BATCH_SIZE, DOOR, SPIKE_AT_ONCE, DoorAnswers, DoorMeasured, measure_door
from local.bench.orders import OrderSender, OrdersMeasured, Sessions, connect
from local.bench.probes import flame_graph, longest_pause, resident_size
from local.bench.workloads import FIVE_STEPS, ORDERS, Workload
from local.callers.demo import percentile
from local.platform import PartName, Platform
from local.platform.parts import HOSTS
from local.progress import Phase, Phases

_SLOW_RATE = 10
_GIBIBYTE = 1024**3
_PACKAGES = ("azure-functions-durable", "azure-data-tables", "azure-servicebus", "fastapi")


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


@dataclass(frozen=True, slots=True)
class BenchRun:
    """Measures `orders` orders at once, and `spike` orders at the door.

    The orders are sent to `hosts` hosts in turn; the door has one. With a `profile`, it samples the first
    host in a phase of its own, since sampling slows the host down. With `in_memory`, the table store saves
    nothing.
    """

    orders: int
    spike: int
    phases: Phases
    profile: Path | None
    hosts: int
    in_memory: bool

    async def measure(self) -> BenchResult:
        """Measure everything; all state is in a temporary folder. Raises `PlatformError`, `TimeoutError`."""
        load = os.getloadavg()
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            five_steps = await self._workload(FIVE_STEPS, Path(folder), self.profile)
            orders = await self._workload(ORDERS, Path(folder))
            async with self._platform(DOOR, Path(folder) / "door", 1, SPIKE_AT_ONCE) as (platform, sessions):
                door = await platform.unless_a_part_fails(
                    measure_door(platform, sessions[0], self.spike, self.phases)
                )
        return BenchResult((orders, five_steps), door, load)

    async def _workload(
        self, workload: Workload, folder: Path, profile: Path | None = None
    ) -> WorkloadMeasured:
        async with self._platform(workload, folder / workload.resource, self.hosts) as (platform, sessions):
            measured = await platform.unless_a_part_fails(self._phases_of(workload, platform, sessions))
            if profile is not None:
                phase = self.phases.begin(f"{workload.name}, sampled", self.orders)
                async with flame_graph(platform.pid(PartName.HOST), profile):
                    sampled = OrderSender(sessions, workload, {}).measure(phase, at_once=phase.total)
                    await platform.unless_a_part_fails(sampled)
            return measured

    async def _phases_of(
        self, workload: Workload, platform: Platform, sessions: Sessions
    ) -> WorkloadMeasured:
        def begin(phase: str, total: int) -> Phase:
            return self.phases.begin(f"{workload.name}, {phase}", total)

        parts = (*HOSTS[: self.hosts], PartName.BROKER, PartName.AZURITE)
        processes = {**{str(part): platform.pid(part) for part in parts}, "client": os.getpid()}
        orders, some = OrderSender(sessions, workload, processes), min(self.orders, 200)
        warm_up = 50 * self.hosts
        await orders.measure(begin("to warm up", warm_up), at_once=warm_up)
        alone = await orders.measure(begin("one at a time", 20), at_once=1)
        full = await orders.measure(begin("at once", self.orders), at_once=self.orders)
        half = await orders.measure(begin("half load", some), at_once=some, rate=full.finished_rate / 2)
        slow = await orders.measure(begin(f"{_SLOW_RATE} orders/s", some), at_once=some, rate=_SLOW_RATE)
        phases = {
            "one at a time": alone,
            f"{self.orders} at once": full,
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
            entry.write("\nfrom local.bench.probes import serve_longest_pause\n\nserve_longest_pause(app)\n")
        options = replace(options, ports=ports, in_memory_storage=self.in_memory)
        async with Platform(options) as platform, AsyncExitStack() as stack:
            urls = platform.addresses.hosts
            yield platform, [await stack.enter_async_context(connect(url, connections)) for url in urls]


def orders_report(measured: BenchResult) -> Table:
    """Return the table of the orders, with a column for each workload."""
    workloads, memory = measured.workloads, psutil.virtual_memory().total / _GIBIBYTE
    machine = f"{psutil.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
    table = Table("measure", *(each.name for each in workloads), title=f"Orders on {machine}")
    for phase in workloads[0].phases:
        table.add_row(f"[bold]{phase}")
        columns = [_rows(each.phases[phase]) for each in workloads]
        for measure in columns[0]:
            table.add_row(measure, *(column[measure] for column in columns))
        table.add_section()
    table.add_row("[bold]after these orders")
    for process in workloads[0].resident:
        table.add_row(f"memory, {process}", *(f"{each.resident[process]:.0f} MiB" for each in workloads))
    pauses = (f"{each.longest_pause * 1000:.1f} ms" for each in workloads)
    table.add_row("longest garbage collection (CPU)", *pauses)
    load = ", ".join(f"{each:.1f}" for each in measured.load)
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    table.caption = f"{packages}; load of the machine before: {load}"
    return table


def door_report(measured: BenchResult) -> Table:
    """Return the table of the API alone."""
    door, table = measured.door, Table("the door", "")
    batches, spike = door.batches, door.spike
    _add_answers(table, "PUT of one order", door.puts)
    table.add_section()
    _add_answers(table, f"batches of {BATCH_SIZE}, the application makes ids", batches)
    for part, seconds in door.cpu_seconds.items():
        table.add_row(f"  CPU an order, {part}", f"{seconds / max(1, len(batches.accepted)) * 1e6:.0f} µs")
    _add_answers(table, f"batches of {BATCH_SIZE}, the caller gives ids", door.named)
    table.add_section()
    _add_answers(table, f"a spike of {len(spike.accepted) + spike.refused} orders", spike)
    refused = sum(each.refused for each in (door.puts, batches, door.named, spike))
    table.add_row("not accepted, lost", f"{refused}, {door.lost}")
    return table


def _rows(phase: OrdersMeasured) -> dict[str, str]:
    cpu_seconds = dict(phase.cpu_seconds)
    if PartName.HOST_2 in cpu_seconds:
        cpu_seconds["all hosts"] = sum(cpu_seconds.get(host, 0.0) for host in HOSTS)
    counts = {
        **{f"CPU an order, {name} (ms)": spent * 1000 for name, spent in cpu_seconds.items()},
        "table transactions an order": phase.figures.transactions,
        "rows written an order": phase.figures.operations,
        "table reads an order": phase.figures.reads,
        "messages sent an order": phase.figures.messages,
        "Durable history events an order": phase.history_events,
        "function executions an order": phase.figures.executions,
        "activities an order": phase.figures.activities,
    }
    return {
        "accepted": f"{phase.accepted_rate:.0f}/s",
        "submit p50 / p99": _percentiles(phase.submit_seconds),
        "processed": f"{phase.finished_rate:.1f} orders/s",
        "end to end p50 / p99": _percentiles(phase.end_to_end_seconds),
        **{measure: f"{phase.per_order(count):.2f}" for measure, count in counts.items()},
    }


def _add_answers(table: Table, what: str, answers: DoorAnswers) -> None:
    table.add_row(what, f"{answers.rate:,.0f}/s")
    table.add_row("  a request, p50 / p99", _percentiles(answers.seconds))


def _percentiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    return f"{percentile(seconds, 50) * 1000:.0f} / {percentile(seconds, 99) * 1000:.0f} ms"


async def bench(orders: int, spike: int, profile: Path | None, hosts: int, *, in_memory: bool) -> int:
    """Measure, with `hosts` hosts for the orders, and print two tables.

    Return 0 if every order was processed, and every order of the door is on its queue.
    """
    console = Console(width=None if sys.stdout.isatty() else 120)
    with Phases(console) as phases:
        measured = await BenchRun(orders, spike, phases, profile, hosts, in_memory).measure()
    console.print(orders_report(measured))
    console.print(door_report(measured))
    if profile is not None:
        console.print(f"flame graph: {profile}", highlight=False)
    ended = [phase for each in measured.workloads for phase in each.phases.values()]
    are_processed = all(phase.processed == phase.count for phase in ended)
    return 0 if are_processed and measured.door.lost == 0 else 1
