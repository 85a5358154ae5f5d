"""The pure core keeps its promises in every order of events that a few actors can bring about."""

from __future__ import annotations

import sys

import pytest

from functions.pattern.epochs import FINAL
from functions.pattern.states import ProcessState, Remedy
from tests.model.search import search
from tests.model.workflows import SEARCHES

#: Coverage would make it three times as long, and is that of the unit tests.
pytestmark = [pytest.mark.timeout(600), pytest.mark.no_cover]

#: So many lead from one state to another, at least: together more than 10^6 by far.
_LEAST_EDGES = {
    "undone side by side": 600_000,
    "held side by side": 300_000,
    "operator": 1_200_000,
    "faults": 1_200_000,
}


#: `faults` alone makes more than 10^6 transitions.
_AT_NIGHT = {"operator", "undone side by side"}
_NAMES = [pytest.param(name, marks=pytest.mark.night if name in _AT_NIGHT else []) for name in SEARCHES]


@pytest.mark.parametrize("name", _NAMES)
def test_every_state_is_sound_and_leads_to_an_end(name: str) -> None:
    """Each change, call and state is checked; from each state an end is reached when nothing goes wrong."""
    searched = SEARCHES[name]
    found = search(searched.workflow, searched.refused, searched.left)
    sys.stdout.write(f"{name}: {found}\n")
    assert found.stuck == 0
    is_undone = searched.workflow.on_failure is Remedy.COMPENSATE
    assert set(found.ends) == FINAL - (set() if is_undone else {ProcessState.COMPENSATED})
    assert found.edges >= _LEAST_EDGES[name]
