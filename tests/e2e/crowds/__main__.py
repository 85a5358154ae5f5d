"""The command: runs crowds at full size, tells what was broken, and draws how calls return.

Exit codes: 0 if every promise was kept, 1 if not, 130 if it was stopped.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr
from pathlib import Path

from rich.console import Console

from local.bench.progress import Phases
from local.platform import INTERRUPTED, ROOT, until_stop_signal
from tests.e2e.crowds.limit import Limited, limited
from tests.e2e.crowds.orders import Show
from tests.e2e.crowds.outage import Outage, Returned, outage
from tests.e2e.crowds.plot import drawn
from tests.e2e.crowds.thousand import Served, thousand_at_once

_PLOT = ROOT / "docs" / "images" / "calls-after-an-outage.svg"
_THOUSAND, _LIMITED = 1_100, 600
_OUTAGE = Outage(5_000)
    int(__import__("os").environ.get("N", "5000")), seconds=float(__import__("os").environ.get("SECS", "600"))
)

type Run = Callable[[Path, Show], Awaitable[Served | Returned | Limited]]
_RUNS: dict[str, tuple[int, Run]] = {
    "thousand": (_THOUSAND, lambda data, show: thousand_at_once(data, show, orders=_THOUSAND)),
    "outage": (_OUTAGE.tasks, lambda data, show: outage(data, show, _OUTAGE)),
    "limit": (_LIMITED, lambda data, show: limited(data, show, orders=_LIMITED)),
}


async def _run_all(names: list[str], console: Console, folder: Path) -> int:
    broken = 0
    with (folder / "parts.log").open("w") as log, redirect_stderr(log), Phases(console) as phases:
        for name in names:
            total, run = _RUNS[name]
            measured = await run(folder / name, phases.begin(name, total).show)
            console.print(measured, highlight=False)
            for fault in measured.faults():
                console.print(f"{name}: BROKEN: {fault}", highlight=False)
                broken += 1
            if isinstance(measured, Returned):
                _PLOT.write_text(drawn(measured), encoding="utf-8")
    return int(broken > 0)


def main() -> int:
    """Run what was asked for."""
    parser = ArgumentParser(prog="python -m tests.e2e.crowds", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*_RUNS, []], default=[], metavar="NAME")
    names = parser.parse_args().names or list(_RUNS)
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="crowds-") as name:
        run = _run_all(names, console, Path(name))
        return asyncio.run(until_stop_signal(run, lambda: None, stopped=INTERRUPTED))


if __name__ == "__main__":
    sys.exit(main())
