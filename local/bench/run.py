"""One run of the benchmark: the engine alone, then orders on the whole platform."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from local.bench.engine import engine_rate
from local.bench.memory import peak_memory
from local.bench.orders import OrdersMeasured, all_at_once, connect, one_at_a_time
from local.platform import ANY_PORTS, PartName, Platform, PlatformOptions

#: The number of orders in flight for which the cost in transactions is promised.
IN_FLIGHT = 200
_ONE_AT_A_TIME = 20
_WARM_UP = 50


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that one run measured; rates are per second, memory is in MiB."""

    engine_two_activities: float
    engine_five_activities: float
    single: OrdersMeasured
    in_flight: OrdersMeasured
    many: OrdersMeasured
    peak_memory: dict[str, float]

    @property
    def all_processed(self) -> bool:
        """Whether every order of the run was carried out."""
        return all(each.processed == each.count for each in (self.single, self.in_flight, self.many))


async def measure(orders: int, console: Console) -> Measured:
    """Measure, saying what is going on; everything is kept in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        console.print(f"the Durable engine alone, {orders} orchestrations …")
        two = await engine_rate("two_activities", orders, data / "two")
        five = await engine_rate("five_activities", orders, data / "five")
        async with Platform(PlatformOptions(ports=ANY_PORTS, data=data / "whole")) as platform:
            processes = {str(name): platform.pid(name) for name in PartName}
            async with peak_memory(processes) as peaks, connect(platform.addresses.host) as session:
                await all_at_once(session, _WARM_UP)
                console.print(f"{_ONE_AT_A_TIME} orders, one at a time …")
                single = await one_at_a_time(session, _ONE_AT_A_TIME)
                console.print(f"{IN_FLIGHT} orders in flight …")
                in_flight = await all_at_once(session, IN_FLIGHT)
                console.print(f"{orders} orders at once …")
                many = await all_at_once(session, orders)
        return Measured(two, five, single, in_flight, many, peaks)
