"""The process stops between any two requests of one order, at every point, and no invariant is violated."""

from __future__ import annotations

import pytest

from functions.core.derive import ProcessState, derive
from tests.simulation.crash_points import run_point
from tests.simulation.record_checks import ViolationError

#: Points of the shorter path, at least.
_LEAST_POINTS = 30
_CASES = [
    ("processed", 1),
    pytest.param("processed", 2, marks=pytest.mark.night),
    pytest.param("undone", 1, marks=pytest.mark.night),
    pytest.param("undone", 2, marks=pytest.mark.night),
]

pytestmark = [pytest.mark.timeout(600), pytest.mark.no_cover]


@pytest.mark.parametrize(("path", "hosts"), _CASES)
def test_crash_at_any_point_violates_no_invariant(path: str, hosts: int) -> None:
    """One host is the whole application until another one starts; a second host continues at once."""
    points = run_point(path, None, hosts=hosts).crossings
    violated = []
    for number in range(1, points + 1):
        try:
            world = run_point(path, number, hosts=hosts)
        except ViolationError as violation:
            violated.append(f"point {number}: {violation}")
        else:
            assert world.faults.total() == 1
    assert violated == []
    assert points >= _LEAST_POINTS


@pytest.mark.parametrize(
    ("path", "end"), [("processed", ProcessState.PROCESSED), ("undone", ProcessState.COMPENSATED)]
)
def test_path_without_a_crash_has_its_end(path: str, end: ProcessState) -> None:
    """It is neither recovered nor decided by an operator."""
    world = run_point(path, None)
    [record] = [world.records[task] for task in world.definitions.tasks]
    assert (derive(record).state, record.failures) == (end, 0)
