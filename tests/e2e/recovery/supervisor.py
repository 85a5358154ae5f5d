"""A Supervisor in a separate process, which sweeps once: `python -m tests.e2e.recovery.supervisor`.

Its clock can be ahead, and it can crash at the worst moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from functions.bus.messages import QueuedMessages
from functions.machine import SystemClock
from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.recovery.workflows import REGISTRATIONS


@dataclass(frozen=True, slots=True)
class Swept:
    """How a Supervisor's process ended, and the number of tasks that it recovered."""

    returncode: int
    recovered: int = 0


async def sweep(settings: Mapping[str, str], *options: str) -> Swept:
    """Run one Supervisor, with the settings of the application."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, *options),
        env={**os.environ, **settings},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    return Swept(process.returncode or 0, **json.loads(printed or b"{}"))


async def _sweep_once() -> None:
    settings = load_settings()
    wiring = Wiring(settings, REGISTRATIONS)
    figures = await wiring._supervision().sweep.run()
    sys.stdout.write(json.dumps({"recovered": figures.recovered}))
    sys.stdout.flush()
    os._exit(0)  # as a process that is stopped leaves its connections


async def _die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def main() -> None:
    """Sweep once, as the command line says."""
    parser = ArgumentParser()
    parser.add_argument("--clock-ahead", type=float, default=0, help="seconds")
    parser.add_argument("--clock-stands-at", type=datetime.fromisoformat, help="a time in UTC")
    parser.add_argument("--dies-before-sending", action="store_true")
    options = parser.parse_args()
    ahead, stands_at = timedelta(seconds=options.clock_ahead), options.clock_stands_at
    setattr(SystemClock, "now", lambda _self: stands_at or datetime.now(UTC) + ahead)  # noqa: B010 - mypy refuses a plain assignment
    if options.dies_before_sending:
        setattr(QueuedMessages, "request", _die)  # noqa: B010 - the same
    asyncio.run(_sweep_once())


if __name__ == "__main__":
    main()
