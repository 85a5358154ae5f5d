"""The core keeps its promises in every order of events that a few runs, faults and an operator can cause."""

from __future__ import annotations

import sys

import pytest

from tests.model.search import search
from tests.model.workflows import SEARCHES

pytestmark = [pytest.mark.timeout(1800), pytest.mark.no_cover]

#: Transitions of each search, at least: together more than 2.8 million.
_LEAST = {
    "small": 180_000,
    "time limit": 130_000,
    "kept side by side": 450_000,
    "undone side by side": 300_000,
    "operator": 1_170_000,
    "faults": 640_000,
}
_BY_DAY = {"small"}
_NAMES = [pytest.param(name, marks=[] if name in _BY_DAY else pytest.mark.night) for name in SEARCHES]


@pytest.mark.parametrize("name", _NAMES)
def test_every_state_is_sound_and_leads_to_an_end(name: str) -> None:
    """Each change, call and state is checked. From each state an end is reached without a further fault."""
    found = search(SEARCHES[name])
    sys.stdout.write(f"{name}: {found}\n")
    assert found.stuck == 0
    assert set(found.ends) >= {"Processed", "Error"}
    assert found.transitions >= _LEAST[name]
