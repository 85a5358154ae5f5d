"""The command: makes the plan, carries it out on its own platform, checks and reports."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

from rich.console import Console

from local.platform import INTERRUPTED, until_stop_signal
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.tables import Tables
from tests.chaos.invariants import Violation, violations
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan, make_plan
from tests.chaos.run.environment import RunEnvironment, SubmitTo
from tests.chaos.run.progress import RunProgress
from tests.chaos.run.report import report
from tests.chaos.run.runner import Run

_HELD = 0
_VIOLATED = 1


async def chaos(
    seed: int, orders: int, minutes: float, accounts: int, submit_to: SubmitTo, *, split: bool
) -> int:
    """Carry out one run. Returns 0 if all invariants hold, 1 if not, and 130 if it was stopped.

    The state and the log of the parts are in a temporary folder, which is kept if an invariant does not hold.
    """
    console = Console()
    plan = make_plan(seed, orders, minutes * 60)
    limits = Limits()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    found: list[Violation] = []
    environment = RunEnvironment(
        plan, limits, folder / "data", accounts=accounts, submit_to=submit_to, split=split
    )

    async def observe_and_check() -> int:
        evidence = await observe(plan, limits, environment, folder / "parts.log", console)
        found.extend(violations(evidence))
        report(console, evidence, found)
        return _VIOLATED if found else _HELD

    try:
        return await until_stop_signal(observe_and_check(), environment.kill_all_now, stopped=INTERRUPTED)
    finally:
        if found:
            console.print(f"state and log of the parts: {folder}", highlight=False)
        else:
            shutil.rmtree(folder)


async def observe(
    plan: Plan, limits: Limits, environment: RunEnvironment, log: Path, console: Console
) -> Evidence:
    """Carry out the plan and return the evidence. The parts' output goes to `log`."""
    with log.open("w") as parts, redirect_stderr(parts), RunProgress(len(plan.orders), console) as progress:
        async with environment.running(), Tables.at(environment.connections) as tables:
            run = Run(plan, limits, environment, tables)
            return await environment.unless_a_part_fails(run.carry_out(progress))
