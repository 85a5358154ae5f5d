"""The command `python -m local.bench.stream`: measures, and prints two tables.

Exit codes: 0: each order is one task, and `Processed`. 1: not so. 130: stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from rich.console import Console

from local.bench.progress import Phases
from local.bench.stream.report import compared, on_record
from local.bench.stream.run import StreamRun
from local.platform import INTERRUPTED, until_stop_signal


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m local.bench.stream",
        description="Puts orders of one step through queue and event hub, kills host and broker on the way,"
        " has the hub taken again, and checks that each order was admitted once.",
    )
    parser.add_argument("--events", type=int, default=100_000, help="through the hub (default: %(default)s)")
    parser.add_argument(
        "--compared", type=int, default=2_000, help="before, on each way at once (default: %(default)s)"
    )
    chosen = parser.parse_args()
    return asyncio.run(_measure(chosen.events, chosen.compared))


async def _measure(events: int, orders: int) -> int:
    console = Console(width=None if sys.stdout.isatty() else 120)
    phases = Phases(console)
    run = StreamRun(events, orders, phases)

    async def measure_and_report() -> int:
        with phases:
            measured = await run.measure()
        console.print(compared(measured))
        console.print(on_record(measured))
        return 1 if measured.recorded.faults else 0

    return await until_stop_signal(measure_and_report(), run.kill_all_now, stopped=INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
