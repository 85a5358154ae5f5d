"""The command: draws the plan, carries it out on its own platform, judges and reports."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

from pydantic_core import to_json
from rich.console import Console

from local.platform import INTERRUPTED, until_stop_signal
from tests.chaos.evidence.judge import Judge, Outcome
from tests.chaos.plan import Limits, Plan, make_plan
from tests.chaos.run.course import ChaosRun
from tests.chaos.run.environment import RunEnvironment
from tests.chaos.run.progress import RunProgress
from tests.chaos.run.report import report

_HELD = 0
_VIOLATED = 1


async def chaos(seed: int, orders: int, minutes: float, hosts: int) -> int:
    """Carry out one run. Return 0 without a violation, 1 with one, and 130 if it was stopped.

    The state and the log of the parts are in a temporary folder. The folder is kept after a violation, and
    after a run that fails.
    """
    plan, limits, console = make_plan(seed, orders, minutes * 60), Limits(), Console()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    environment = RunEnvironment(plan, limits, folder, hosts)

    async def run_and_judge() -> int:
        judge, outcome = await judged(plan, limits, environment, folder, console)
        report(console, plan, judge, outcome, limits)
        return _VIOLATED if judge.violations else _HELD

    try:
        code = await until_stop_signal(run_and_judge(), environment.kill_all_now, stopped=INTERRUPTED)
    except Exception:
        console.print(f"the run failed; state and log of the parts: {folder}", soft_wrap=True)
        raise
    if code != _VIOLATED:
        shutil.rmtree(folder)
    return code


async def judged(
    plan: Plan, limits: Limits, environment: RunEnvironment, folder: Path, console: Console
) -> tuple[Judge, Outcome]:
    """Carry out the plan; return the judge with the records and the violations, and the outcome.

    The parts' output goes to a file in the folder. After a violation, the records and effects do so, too.
    """
    with (
        (folder / "parts.log").open("w") as parts,
        redirect_stderr(parts),
        RunProgress(len(plan.orders), console) as progress,
    ):
        async with environment.running():
            run = ChaosRun(plan, limits, environment)
            outcome = await environment.unless_a_part_fails(run.carry_out(progress))
    found = run.judge.judge(outcome)
    if found:
        kept = {"violations": found, "records": run.judge.records, "effects": environment.remotes.effects}
        (folder / "evidence.json").write_bytes(to_json(kept, indent=1, fallback=repr))
        console.print(f"evidence, state and log of the parts: {folder}", highlight=False, soft_wrap=True)
    return run.judge, outcome
