"""The command: runs crowds at full size, tells what was broken, and draws how calls return.

Exit codes: 0 if every promise was kept, 1 if not, 130 if it was stopped.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stderr
from pathlib import Path

from rich.console import Console

from local.platform import INTERRUPTED, ROOT, until_stop_signal
from local.progress import Phases
from tests.e2e.crowds.limit import Limited, limited
from tests.e2e.crowds.orders import Show
from tests.e2e.crowds.outage import Outage, Returned, outage
from tests.e2e.crowds.plot import drawn
from tests.e2e.crowds.thousand import Served, thousand_at_once

_PLOT = ROOT / "docs" / "images" / "calls-after-an-outage.svg"
_THOUSAND, _LIMITED, _WAITING = 1_100, 600, 5_000

type Run = Callable[[Path, Show], Awaitable[Served | Returned | Limited]]


def _runs(waiting: int, scale: int) -> dict[str, tuple[int, Run]]:
    """Name the runs, with the number of their orders."""
    plan = Outage(waiting, scale=scale)
    return {
        "thousand": (_THOUSAND, lambda data, show: thousand_at_once(data, show, orders=_THOUSAND)),
        "outage": (waiting, lambda data, show: outage(data, show, plan)),
        "limit": (_LIMITED, lambda data, show: limited(data, show, orders=_LIMITED)),
    }


async def _run_all(runs: Mapping[str, tuple[int, Run]], console: Console, folder: Path) -> int:
    broken = 0
    with (folder / "parts.log").open("w") as log, redirect_stderr(log), Phases(console) as phases:
        for name, (total, run) in runs.items():
            measured = await run(folder / name, phases.begin(name, total).show)
            console.print(measured, highlight=False)
            for fault in measured.faults():
                console.print(f"{name}: BROKEN: {fault}", highlight=False)
                broken += 1
            if isinstance(measured, Returned):
                _PLOT.write_text(drawn(measured), encoding="utf-8")
    if broken:
        console.print(f"log of the parts: {folder}", highlight=False)
        return 1
    shutil.rmtree(folder)
    return 0


def main() -> int:
    """Run what was asked for."""
    parser = ArgumentParser(prog="python -m tests.e2e.crowds", description=__doc__)
    parser.add_argument("--only", choices=["thousand", "outage", "limit"], help="one of them")
    parser.add_argument("--waiting", type=int, default=_WAITING, help="tasks that wait in the outage")
    parser.add_argument("--scale", type=int, default=1, help="how many times as fast the outage's times are")
    chosen = parser.parse_args()
    runs = _runs(chosen.waiting, chosen.scale)
    runs = {name: run for name, run in runs.items() if chosen.only in (None, name)}
    console = Console(width=None if sys.stdout.isatty() else 120)
    run = _run_all(runs, console, Path(tempfile.mkdtemp(prefix="crowds-")))
    return asyncio.run(until_stop_signal(run, lambda: None, stopped=INTERRUPTED))


if __name__ == "__main__":
    sys.exit(main())
