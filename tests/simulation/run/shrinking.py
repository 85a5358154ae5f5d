"""Leaves out kinds of faults as long as the same invariant is violated."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.faults.kinds import FaultPlan, SimulatedFault
from tests.simulation.run.verdict import Verdict, run_seed


def shrunk(failed: Verdict, without: Sequence[SimulatedFault]) -> tuple[Verdict, list[SimulatedFault]]:
    """Give the run with the fewest kinds that was found, and what it is without."""
    wanted = {each.invariant for each in failed.violations}
    left_out, smallest = list(without), failed
    for kind in sorted(FaultPlan.drawn(failed.seed, without).kinds):
        tried = run_seed(failed.seed, without=[*left_out, kind])
        if wanted & {each.invariant for each in tried.violations}:
            left_out, smallest = [*left_out, kind], tried
    return smallest, left_out
