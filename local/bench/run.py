"""One run of the benchmark: the engine alone, then orders on the whole platform."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from local.bench.engine import engine_rate
from local.bench.orders import OrdersMeasured, all_at_once, connect, one_at_a_time
from local.platform import ANY_PORTS, PartName, Platform, PlatformOptions

#: The number of orders in flight for which the cost in transactions is promised.
IN_FLIGHT = 200
_ONE_AT_A_TIME = 20
_WARM_UP = 50
#: Seconds between two readings of the memory.
_LOOK_EVERY = 0.2
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Everything that one run measured; rates are per second, memory is in MiB."""

    engine_one_activity: float
    engine_five_activities: float
    single: OrdersMeasured
    in_flight: OrdersMeasured
    many: OrdersMeasured
    peak_memory: dict[str, float]

    @property
    def all_processed(self) -> bool:
        """Whether every order of the run was processed."""
        return all(each.processed == each.count for each in (self.single, self.in_flight, self.many))


async def measure(orders: int, console: Console) -> BenchResult:
    """Measure, and print the progress; all state is in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        console.print(f"the Durable engine alone, {orders} orchestrations …")
        two = await engine_rate("one_activity", orders, data / "two")
        five = await engine_rate("five_activities", orders, data / "five")
        async with Platform(PlatformOptions(ports=ANY_PORTS, data=data / "whole")) as platform:
            processes = {str(name): platform.pid(name) for name in PartName}
            async with _peak_memory(processes) as peaks, connect(platform.addresses.host) as session:
                await all_at_once(session, _WARM_UP)
                console.print(f"{_ONE_AT_A_TIME} orders, one at a time …")
                single = await one_at_a_time(session, _ONE_AT_A_TIME)
                console.print(f"{IN_FLIGHT} orders in flight …")
                in_flight = await all_at_once(session, IN_FLIGHT)
                console.print(f"{orders} orders at once …")
                many = await all_at_once(session, orders)
        return BenchResult(two, five, single, in_flight, many, peaks)


@asynccontextmanager
async def _peak_memory(processes: Mapping[str, int]) -> AsyncIterator[dict[str, float]]:
    """Yield a mapping that holds, at the end of the block, each process's peak resident memory in MiB."""
    peaks = dict.fromkeys(processes, 0.0)
    watched = {name: psutil.Process(pid) for name, pid in processes.items()}

    async def look() -> None:
        while True:
            for name, process in watched.items():
                peaks[name] = max(peaks[name], process.memory_info().rss / _MEBIBYTE)
            await asyncio.sleep(_LOOK_EVERY)

    looking = asyncio.create_task(look())
    try:
        yield peaks
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError, psutil.Error):
            await looking
