"""The command: counts the costs of one order of each workload, and prints those of a million orders."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from local.bench.orders import OrderSender, connect
from local.bench.workloads import DELIVERIES, FIVE_STEPS, ORDERS, Workload
from local.cost.tables import PAGE, CountedOrder, page, tables
from local.platform import PartName, Platform
from local.progress import Phases

#: Counts of orders one at a time are the same for each.
_ONE_AT_A_TIME = 20
_WARM_UP = 20
_HOST = str(PartName.HOST)
_COUNTS = ("executions", "transactions", "messages", "episodes", "activities")


async def cost(orders: int, *, write_page: bool) -> int:
    """Count with `orders` orders at once, print the tables, and `write_page` if asked."""
    with (
        tempfile.TemporaryDirectory(prefix="cost-") as folder,
        Phases(Console(stderr=True)) as phases,
    ):
        workloads = (ORDERS, FIVE_STEPS, DELIVERIES)
        counted = [await _count(each, Path(folder) / each.resource, orders, phases) for each in workloads]
    sys.stdout.write("\n\n".join(tables(counted)) + "\n")
    if write_page:
        PAGE.write_text(page(counted), encoding="utf-8")
    return 0


async def _count(workload: Workload, folder: Path, orders: int, phases: Phases) -> CountedOrder:
    """Count on a platform of its own. Raises `PlatformError`, and `TimeoutError` for a lost order."""
    async with (
        Platform(workload.options(folder)) as platform,
        connect(platform.addresses.host) as session,
    ):
        name = workload.name
        sender = OrderSender([session], workload, {_HOST: platform.pid(PartName.HOST)})
        await sender.measure(phases.begin(f"{name}, to warm up", _WARM_UP), at_once=_WARM_UP)
        at_once = await sender.measure(phases.begin(f"{name}, at once", orders), at_once=orders)
        alone = await sender.measure(phases.begin(f"{name}, one at a time", _ONE_AT_A_TIME), at_once=1)
    for phase in (at_once, alone):
        if phase.processed != phase.count:
            raise TimeoutError(f"{name}: {phase.processed} of {phase.count} processed")
    figures = asdict(alone.figures)
    counts = {each: round(alone.per_order(figures[each]), 1) for each in _COUNTS}
    return CountedOrder(name, **counts, cpu=round(at_once.per_order(at_once.cpu_seconds[_HOST]), 4))
