"""A short run on the real platform, and a run that is stopped before its end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from local.platform import INTERRUPTED
from tests.chaos.command import judged
from tests.chaos.environment import RunEnvironment
from tests.chaos.plan import Limits, make_plan
from tests.e2e.caller import NEEDS_ORDERS
from tests.local.platform.processes import PATIENCE, left_running

pytestmark = [pytest.mark.night, pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(900)]

#: Shorter than in a run by hand: recoveries are exhausted and tasks undone within half a minute.
_LIMITS = Limits(step=3, queue_step=6, pick_up=4, sweep=1, threshold=2, extended_waits=(1, 2))


# The Service Bus client does not close a socket whose connection was cut.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
async def test_short_run_violates_nothing(tmp_path: Path) -> None:
    """30 orders, two hosts, every fault: the checks of the simulation hold."""
    plan = make_plan(seed=1, orders=30, seconds=30)
    environment = RunEnvironment(plan, _LIMITS, tmp_path, hosts=2)
    judge, _ = await judged(plan, _LIMITS, environment, tmp_path, Console())
    gc.collect()
    assert judge.violations == []


async def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    """No process and no folder; the exit code says that nothing was checked."""
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "local", "chaos", "--orders", "5"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert run.stdout
    await asyncio.wait_for(run.stdout.readuntil(b"accepted"), PATIENCE)
    parts = psutil.Process(run.pid).children(recursive=True)
    assert parts
    run.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(run.wait(), PATIENCE) == INTERRUPTED
    assert await asyncio.to_thread(left_running, parts) == []
    assert [*tmp_path.iterdir()] == []  # noqa: ASYNC240 - the run has ended
