"""`python -m local.bench`: prints one table of measurements; exit code 1 when an order was not processed."""

from __future__ import annotations

import argparse
import asyncio
import sys

from rich.console import Console

from local.bench.report import report
from local.bench.run import measure
from local.platform import PlatformError


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m local.bench",
        description="Measures the Durable engine alone, then orders on the whole platform, in one run.",
    )
    parser.add_argument("--orders", type=int, default=500, metavar="N", help="at once (default: 500)")
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        measured = asyncio.run(measure(parser.parse_args().orders, console))
    except PlatformError as failure:
        print(failure, file=sys.stderr)
        return 1
    console.print(report(measured))
    return 0 if measured.all_processed else 1


if __name__ == "__main__":
    sys.exit(main())
