"""The command: makes the plan, carries it out on its own platform, checks and reports."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

from rich.console import Console

from local.platform import INTERRUPTED, until_stop_signal
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.kept import keep
from tests.chaos.evidence.tables import Tables
from tests.chaos.hosts.clock import library
from tests.chaos.invariants import Violation, violations
from tests.chaos.plan.faults import LANES, FaultLane, InjectedFault
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan, make_plan
from tests.chaos.run.environment import Layout, RunEnvironment
from tests.chaos.run.progress import RunProgress
from tests.chaos.run.report import report
from tests.chaos.run.runner import Run

_HELD = 0
_VIOLATED = 1
#: There is one order of a drawn workflow for so many others.
_ONE_DRAWN_IN = 5


async def chaos(seed: int, orders: int, minutes: float, layout: Layout) -> int:
    """Carry out one run. Returns 0 if all invariants hold, 1 if not, and 130 if it was stopped.

    The state and the log of the parts are in a temporary folder, which is kept if an invariant does not hold,
    or the run fails.
    """
    plan = make_plan(seed, orders, minutes * 60, drawn=orders // _ONE_DRAWN_IN, not_run=not_possible())
    console, limits = Console(), Limits()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    environment = RunEnvironment(plan, limits, folder / "data", layout)

    async def observe_and_check() -> int:
        evidence, found = await judged(plan, limits, environment, folder, console)
        report(console, evidence, found)
        return _VIOLATED if found else _HELD

    try:
        code = await until_stop_signal(observe_and_check(), environment.kill_all_now, stopped=INTERRUPTED)
    except Exception:
        console.print(f"the run failed; state and log of the parts: {folder}", soft_wrap=True)
        raise
    if code != _VIOLATED:
        shutil.rmtree(folder)
    return code


def not_possible() -> frozenset[InjectedFault]:
    """Name the faults that cannot be injected on this machine: without libfaketime, those of clocks."""
    return frozenset() if library() else frozenset(LANES[FaultLane.CLOCKS])


async def judged(
    plan: Plan, limits: Limits, environment: RunEnvironment, folder: Path, console: Console
) -> tuple[Evidence, Sequence[Violation]]:
    """Carry out the plan; return the evidence, and what it violates.

    The parts' output and the evidence go to files in the folder.
    """
    with (
        (folder / "parts.log").open("w") as parts,
        redirect_stderr(parts),
        RunProgress(len(plan.orders), console) as progress,
    ):
        async with environment.running(), Tables.at(environment.tables_connection) as tables:
            run = Run(plan, limits, environment, tables)
            evidence = await environment.unless_a_part_fails(run.carry_out(progress))
    found = violations(evidence)
    keep(evidence, found, folder)
    if found:
        console.print(f"evidence, state and log of the parts: {folder}", highlight=False, soft_wrap=True)
    return evidence, found
