"""Counts what an order of each workload costs, on local platforms of their own."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from local.bench.orders import OrderSender, OrdersMeasured, connect
from local.bench.workloads import DELIVERIES, FIVE_STEPS, ORDERS, Workload
from local.platform import PartName, Platform
from local.progress import Phases

#: Counts of orders one at a time are the same for each.
_ONE_AT_A_TIME = 20
_WARM_UP = 20
_HOST = str(PartName.HOST)


@dataclass(frozen=True, slots=True)
class CountedOrder:
    """What one order costs; `cpu` is the host's, in seconds, of many orders at once."""

    name: str
    executions: float
    transactions: float
    messages: float
    episodes: float
    activities: float
    cpu: float


class Counting:
    """Counts with so many orders at once; what runs can be killed."""

    def __init__(self, orders: int, phases: Phases) -> None:
        self._orders = orders
        self._phases = phases
        self._running: Platform | None = None

    def kill_all_now(self) -> None:
        """End every part without waiting."""
        if self._running is not None:
            self._running.kill_all_now()

    async def count(self) -> list[CountedOrder]:
        """Count each workload. Raises `PlatformError`, and `TimeoutError` for an order that is lost."""
        with tempfile.TemporaryDirectory(prefix="cost-") as folder:
            workloads = (ORDERS, FIVE_STEPS, DELIVERIES)
            return [await self._count(each, Path(folder) / each.resource) for each in workloads]

    async def _count(self, workload: Workload, folder: Path) -> CountedOrder:
        self._running = Platform(workload.options(folder))
        async with self._running as platform, connect(platform.addresses.host) as session:
            begin, name = self._phases.begin, workload.name
            orders = OrderSender([session], workload, {_HOST: platform.pid(PartName.HOST)})
            await orders.all_at_once(begin(f"{name}, to warm up", _WARM_UP))
            at_once = await orders.all_at_once(begin(f"{name}, at once", self._orders))
            alone = await orders.one_at_a_time(begin(f"{name}, one at a time", _ONE_AT_A_TIME))
        for phase in (at_once, alone):
            if phase.processed != phase.count:
                raise TimeoutError(f"{name}: {phase.processed} of {phase.count} processed")
        return _counted(name, alone, at_once.per_order(at_once.cpu_seconds[_HOST]))


def _counted(name: str, alone: OrdersMeasured, cpu: float) -> CountedOrder:
    figures = asdict(alone.figures)
    names = ("executions", "transactions", "messages", "episodes", "activities")
    counts = {each: round(alone.per_order(figures[each]), 1) for each in names}
    return CountedOrder(name, **counts, cpu=round(cpu, 4))
