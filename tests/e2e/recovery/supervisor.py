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
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from functions.bus.messages import QueuedMessages
from functions.machine import SystemClock
from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.recovery.workflows import REGISTRATIONS


@dataclass(frozen=True, slots=True)
class Swept:
    """How a Supervisor's process ended, and what it did about how many tasks."""

    returncode: int
    recovered: int = 0
    extended: int = 0
    asked_again: int = 0
    resumed: int = 0

    @property
    def late(self) -> int:
        """Count the tasks that were late, and not given up."""
        return self.recovered + self.extended + self.asked_again + self.resumed


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
    counted = {each.name for each in fields(Swept)} - {"returncode"}
    sys.stdout.write(json.dumps({name: getattr(figures, name) for name in counted}))
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
