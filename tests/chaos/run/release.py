"""The release run: seed after seed, each on a platform of its own, in pieces that can be taken up again."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from local.platform import ROOT
from tests.chaos.run.environment import Layout
from tests.chaos.run.verdicts import RunVerdict, RunVerdicts, failed_verdict, ledger

#: Carries out the run of a seed, reports it, and gives its verdict; None when it was stopped.
type SeedRun = Callable[[int, Layout], Awaitable[RunVerdict | None]]


@dataclass(frozen=True, slots=True)
class ReleaseGoal:
    """What all runs together must reach, and how many seconds this piece may take until its last begins."""

    tasks: int
    kills: int
    piece: float

    def is_reached(self, verdicts: list[RunVerdict]) -> bool:
        """Tell whether there was enough."""
        tasks = sum(each.tasks for each in verdicts)
        return tasks >= self.tasks and sum(each.kills for each in verdicts) >= self.kills


async def go_on(folder: Path, goal: ReleaseGoal, run: SeedRun) -> bool | None:
    """Run the seeds that have no verdict in the folder, until the goal or the end of this piece.

    Others may do so at the same time, each with seeds of its own. Prints the ledger's lines. Returns whether
    no run violated anything, or None when one was stopped.
    """
    verdicts, begun = RunVerdicts(folder), time.monotonic()
    is_stopped = False
    while not goal.is_reached(verdicts.all()) and time.monotonic() - begun < goal.piece and not is_stopped:
        with verdicts.next_seed() as seed:
            verdict = await _kept_if_it_fails(seed, run, verdicts)
            is_stopped = verdict is None
            if verdict is not None:
                verdicts.keep(verdict)
    kept = verdicts.all()
    print(ledger(kept))
    left = "the goal is reached" if goal.is_reached(kept) else "the same command goes on"
    print(f"{len(kept)} runs are kept in {folder}: {left}")
    return None if is_stopped else not any(each.violations for each in kept)


async def _kept_if_it_fails(seed: int, run: SeedRun, verdicts: RunVerdicts) -> RunVerdict | None:
    """Run a seed; one that fails is not run again as if it were new: what it raised is its violation.

    This ends the piece: where nothing runs, each further seed would fail as well.
    """
    layout, at = layout_of(seed), await commit()
    try:
        return await run(seed, layout)
    except Exception as error:
        what = f"the run failed: {type(error).__name__}: {error}"
        verdicts.keep(failed_verdict(seed, what, commit=at, hosts=layout.hosts))
        raise


def layout_of(seed: int) -> Layout:
    """Take orders by the queue or the hub, by turns."""
    return Layout(hosts=2, submit_to="hub" if seed % 4 == 0 else "queue")


async def commit() -> str:
    """Name the commit that runs, and whether something was changed since."""
    said = await asyncio.to_thread(
        subprocess.run,
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"
