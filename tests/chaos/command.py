"""The command: makes the plan, runs it on a platform of its own, checks, and tells."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

from rich.console import Console

from local.platform import INTERRUPTED, until_told_to_stop
from tests.chaos.evidence import Evidence
from tests.chaos.invariants import Violation, violations
from tests.chaos.limits import Limits
from tests.chaos.plan import Plan, make_plan
from tests.chaos.progress import Progress
from tests.chaos.report import report
from tests.chaos.run import Run
from tests.chaos.tables import Tables
from tests.chaos.world import World

_HELD = 0
_VIOLATED = 1


async def chaos(seed: int, orders: int, minutes: float) -> int:
    """Carry out one run. Returns 0 if all invariants hold, and 130 if it was stopped before its end.

    State and the parts' log are below a temporary folder, which is kept for a look if one does not.
    """
    console = Console()
    plan = make_plan(seed, orders, minutes * 60)
    limits = Limits()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    found: list[Violation] = []
    world = World(plan, limits, folder / "data")

    async def observe_and_judge() -> int:
        evidence = await observe(plan, limits, world, folder / "parts.log", console)
        found.extend(violations(evidence))
        report(console, evidence, found)
        return _VIOLATED if found else _HELD

    try:
        return await until_told_to_stop(observe_and_judge(), world.platform.kill_all_now, stopped=INTERRUPTED)
    finally:
        if found:
            console.print(f"state and log of the parts: {folder}", highlight=False)
        else:
            shutil.rmtree(folder)


async def observe(plan: Plan, limits: Limits, world: World, log: Path, console: Console) -> Evidence:
    """Carry the plan out and give the evidence. What the parts print goes to `log`."""
    with log.open("w") as parts, redirect_stderr(parts), Progress(len(plan.orders), console) as progress:
        async with world.running(), Tables.at(world.platform.addresses.storage_connection) as tables:
            run = Run(plan, limits, world, tables)
            return await world.platform.unless_a_part_fails(run.carry_out(progress))
