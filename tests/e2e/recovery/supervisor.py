"""A Supervisor in a process of its own that sweeps once: `python -m tests.e2e.recovery.supervisor`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from functions import machine


async def sweep(settings: Mapping[str, str], *options: str) -> int:
    """Run one Supervisor with the settings of the application; return the number of recovered tasks."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, *options),
        env={**os.environ, **settings},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    return int(json.loads(printed)["recovered"])


async def _sweep_once() -> None:
    # These modules import the clock, which `main` has replaced.
    from functions.settings import load_settings  # noqa: PLC0415
    from functions.supervisor.task_sweep import TaskSweep  # noqa: PLC0415
    from functions.wiring import Wiring  # noqa: PLC0415
    from tests.e2e.recovery.workflows import REGISTRATIONS  # noqa: PLC0415

    wiring = Wiring(load_settings(), REGISTRATIONS)
    tasks = wiring.tasks
    supervisor = TaskSweep(
        tasks.storage,
        gates=tasks.gates,
        registry=wiring._registry,
        send=wiring._sender.send,
        now=machine.utc_now,
    )
    report = await supervisor.run()
    sys.stdout.write(json.dumps({"recovered": report.recovered}))
    sys.stdout.flush()
    os._exit(0)  # as a process that is stopped leaves its connections


def main() -> None:
    """Sweep once, as the command line says."""
    parser = ArgumentParser()
    parser.add_argument("--clock-ahead", type=float, default=0, help="seconds")
    ahead = timedelta(seconds=parser.parse_args().clock_ahead)
    machine.utc_now = lambda: datetime.now(UTC) + ahead
    asyncio.run(_sweep_once())


if __name__ == "__main__":
    main()
