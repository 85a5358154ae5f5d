"""The command: draws the plan, carries it out on its own platform, judges and reports."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table

from functions.core.derive import derive
from local.platform import INTERRUPTED, until_stop_signal
from local.progress import Phases
from tests.chaos.callers import Callers
from tests.chaos.environment import RunEnvironment
from tests.chaos.evidence import Tables, settle
from tests.chaos.injection import Injector, run_lane
from tests.chaos.judge import Judge, Outcome
from tests.chaos.plan import FaultLane, InjectedFault, Limits, Plan, make_plan

_SHOW_EVERY = 0.5
#: Seconds in which late requests arrive after everything has settled.
_LATE_CALLS = 8.0
#: Seconds between two looks at all tasks, and the pause in lengths of a look: more looks slow down.
_LOOK_EVERY, _PAUSE = 1.0, 3
_MOST_LOOKS_AT_THE_END = 30


class ChaosRun:
    """Carries out a plan in an environment that runs."""

    def __init__(self, plan: Plan, limits: Limits, environment: RunEnvironment) -> None:
        self._plan = plan
        self._limits = limits
        self._addresses = environment.platform.addresses
        self._remotes = environment.remotes
        self._injector = Injector(environment.hosts)
        self._callers = Callers([each.platform.addresses.host for each in environment.hosts], plan.orders)
        self.judge = Judge(
            self._remotes.effects, self._remotes.posted, most_recoveries=limits.most_recoveries
        )
        self._counts = Counter[InjectedFault]()

    async def carry_out(self, phases: Phases, console: Console) -> Outcome:
        """Carry out the plan, and let the judge see the end. Raises `PartFailedError`."""
        try:
            async with Tables.at(self._addresses.storage_connection) as tables, asyncio.TaskGroup() as group:
                works = (self._callers.submit_all(), self._watch(tables), self._show(phases))
                background = [group.create_task(each) for each in works]
                console.print(f"faults and orders for {self._plan.seconds:.0f} s …", highlight=False)
                await asyncio.gather(*map(self._lane, FaultLane))
                self._callers.send_the_rest()
                bound = self._limits.termination
                console.print(f"faults ended; settling takes {bound:.0f} s at most …", highlight=False)
                seconds, leftovers = await settle(tables, self._addresses.admin, self._callers, bound)
                await asyncio.sleep(_LATE_CALLS)
                for task in background:
                    task.cancel()
                return await self._outcome(tables, leftovers, seconds)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _lane(self, lane: FaultLane) -> None:
        await run_lane(self._plan, lane, self._injector.inject, self._counts, self._callers.send_one_more)

    async def _show(self, phases: Phases) -> None:
        """Show the progress until cancelled."""
        accepted, finished = (phases.begin(name, len(self._plan.orders)) for name in ("accepted", "finished"))
        while True:
            accepted.show(len(self._callers.accepted))
            finished.show(self.judge.finished)
            await asyncio.sleep(_SHOW_EVERY)

    async def _watch(self, tables: Tables) -> None:
        """Examine all tasks until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.judge.look(tables)
            await asyncio.sleep(max(_LOOK_EVERY, _PAUSE * (loop.time() - began)))

    async def _outcome(self, tables: Tables, leftovers: Sequence[str], seconds: float) -> Outcome:
        looks = 0
        while not await self.judge.look(tables) and looks < _MOST_LOOKS_AT_THE_END:
            looks += 1
            await asyncio.sleep(_LOOK_EVERY)
        await self.judge.read_notices(self._addresses.service_bus_connection)
        return Outcome(
            accepted=self._callers.accepted,
            rejections=self._callers.rejections,
            cancelled=self._callers.cancelled,
            leftovers=[*leftovers, *self._remotes.faults],
            rejected=await tables.rejected(),
            fault_counts=self._counts,
            seconds=seconds,
        )


def report(console: Console, plan: Plan, judge: Judge, outcome: Outcome, limits: Limits) -> None:
    """Print everything about the run."""
    faults = Table("fault", "effects", title="faults")
    for fault in InjectedFault:
        faults.add_row(fault, str(outcome.fault_counts.get(fault, 0)))
    console.print(faults, _outcomes(judge, outcome))
    found = judge.violations
    for text in found:
        console.print(text, highlight=False, markup=False)
    verdict = f"{len(found)} violations" if found else "no violation"
    effects = sum(outcome.fault_counts.values())
    rest = f"settled {outcome.seconds:.0f} s after the last fault (bound: {limits.termination:.0f} s)"
    line = f"seed {plan.seed}: {len(plan.orders)} orders, {effects} effects of faults, {verdict}; {rest}"
    console.print(line, highlight=False)


def _outcomes(judge: Judge, outcome: Outcome) -> Table:
    table = Table("outcome", "count", title="outcomes")
    states = Counter(str(derive(record).state) for record in judge.records.values())
    for state, number in sorted(states.items()):
        table.add_row(f"orders {state}", str(number))
    epochs = sum(record.epoch - 1 for record in judge.records.values())
    table.add_row("epochs that ended", str(epochs))
    table.add_row("notices and alerts", str(len(judge.posted)))
    table.add_row("rejected messages", str(len(outcome.rejected)))
    table.add_row("looks at all tasks", str(judge.looks))
    return table


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
        return 1 if judge.violations else 0

    try:
        code = await until_stop_signal(run_and_judge(), stopped=INTERRUPTED)
    except Exception:
        console.print(f"the run failed; state and log of the parts: {folder}", soft_wrap=True)
        raise
    if code != 1:
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
        Phases(console) as phases,
    ):
        async with environment.running():
            run = ChaosRun(plan, limits, environment)
            outcome = await environment.unless_a_part_fails(run.carry_out(phases, console))
    found = run.judge.judge(outcome)
    if found:
        kept = {"violations": found, "records": run.judge.records, "effects": environment.remotes.effects}
        (folder / "evidence.json").write_bytes(to_json(kept, indent=1, fallback=repr))
        console.print(f"evidence, state and log of the parts: {folder}", highlight=False, soft_wrap=True)
    return run.judge, outcome
