"""Bugs that are planted in a copy of the application: the simulation sees each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.planted.caught import Caught, kept
from tests.simulation.planted.copies import make_copy, planted
from tests.simulation.seeds import simulated

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(600)]

#: Another run of a seed, after a change of the application, need not meet the bug: then one of these does.
_SEEDS = 25


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what is needed."""
    folder = tmp_path_factory.mktemp("planted")
    make_copy(folder)
    return folder


@pytest.mark.parametrize("bug", sorted(kept()))
def test_planted_bug_is_seen(copy: Path, bug: str) -> None:
    """The seed that has caught it first catches it, or one of the next, by an invariant that saw it then."""
    known = kept()[bug]
    with planted(copy, bug):
        run = simulated("--first", str(known.seed), "--count", str(_SEEDS), "--stop", folder=copy)
    caught = Caught.told(bug, run.stdout)
    assert caught is not None, run.stdout + run.stderr
    assert set(caught.invariants) & set(known.invariants), run.stdout
