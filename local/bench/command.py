"""The command: measures, prints two tables, and says where the flame graph is."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from local.bench.door.report import door_report
from local.bench.progress import Phases
from local.bench.report import report
from local.bench.run import BenchRun
from local.platform import INTERRUPTED, until_stop_signal

_DONE = 0
_FAILED = 1


async def bench(orders: int, spike: int, profile: Path | None) -> int:
    """Measure. Returns 0 if every order was processed, 1 if not, and 130 if it was stopped."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    phases = Phases(console)
    run = BenchRun(orders, spike, phases, profile)

    async def measure_and_report() -> int:
        with phases:
            measured = await run.measure()
        console.print(report(measured))
        console.print(door_report(measured.door))
        if profile is not None:
            console.print(f"flame graph: {profile}", highlight=False)
        return _DONE if measured.all_processed else _FAILED

    return await until_stop_signal(measure_and_report(), run.kill_all_now, stopped=INTERRUPTED)
