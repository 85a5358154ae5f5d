"""The pure core keeps its promises in every order of events that a few actors can bring about."""

from __future__ import annotations

import sys

import pytest

from tests.model.search import search
from tests.model.workflows import SEARCHES

#: Coverage would make it three times as long, and is that of the unit tests.
pytestmark = [pytest.mark.timeout(600), pytest.mark.no_cover]


@pytest.mark.parametrize("name", SEARCHES)
def test_every_state_is_sound_and_leads_to_an_end(name: str) -> None:
    """Each change, call and state is checked; from each state an end is reached when nothing goes wrong."""
    searched = SEARCHES[name]
    found = search(searched.workflow, searched.refused, searched.left)
    sys.stdout.write(f"{name}: {found}\n")
    assert found.stuck == 0
    assert {"Processed", "Error"} <= set(found.ends)
