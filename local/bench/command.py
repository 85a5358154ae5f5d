"""The command `python -m local bench`."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from local.bench.report import door_report, orders_report
from local.bench.run import BenchRun
from local.platform import INTERRUPTED, until_stop_signal
from local.progress import Phases


async def bench(orders: int, spike: int, profile: Path | None, hosts: int, *, in_memory: bool) -> int:
    """Measure, with `hosts` hosts for the orders, and print two tables.

    Return 0 if every order was processed, 1 if not, and 130 if the run was stopped.
    """
    console = Console(width=None if sys.stdout.isatty() else 120)
    phases = Phases(console)
    run = BenchRun(orders, spike, phases, profile, hosts, in_memory=in_memory)

    async def measure_and_report() -> int:
        with phases:
            measured = await run.measure()
        console.print(orders_report(measured))
        console.print(door_report(measured))
        if profile is not None:
            console.print(f"flame graph: {profile}", highlight=False)
        return 0 if measured.all_processed else 1

    return await until_stop_signal(measure_and_report(), run.kill_all_now, stopped=INTERRUPTED)
