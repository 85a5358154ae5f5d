"""The report of many seeds says when they prove nothing: each thing has to have happened often (I14)."""

from __future__ import annotations

from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.run.figures import Figures
from tests.simulation.run.report import Report


def _report(kinds: frozenset[str], outcomes: dict[str, int], widest: int) -> Report:
    report = Report()
    report.add(
        Figures(
            seed=0,
            violations=(),
            digest="",
            outcomes=outcomes,
            faults={},
            kinds=kinds,
            seconds=0,
            cpu=0,
            widest=widest,
            deepest=10,
        )
    )
    return report


def test_run_in_which_everything_happened_is_not_vacuous() -> None:
    """Each kind of faults, each outcome, and wide and deep graphs."""
    every = _report(frozenset(SimulatedFault), {"Processed": 9, "Compensated": 1, "Error": 1}, 40)
    assert every.vacuous == []


def test_what_happened_too_seldom_is_named() -> None:
    """A kind that never had an effect, an outcome below a twentieth, graphs that are too narrow."""
    kinds = frozenset(SimulatedFault) - {SimulatedFault.POISON}
    poor = _report(kinds, {"Processed": 90, "Compensated": 9, "Error": 1}, 39)
    assert poor.vacuous == ["Error", SimulatedFault.POISON, "40 steps wide"]


def test_seeds_in_which_no_task_was_processed_prove_little() -> None:
    """Whatever else happened in them."""
    stuck = _report(frozenset(SimulatedFault), {"Compensated": 1, "Error": 1}, 40)
    assert stuck.vacuous == ["Processed", "seeds with a task that was processed"]
