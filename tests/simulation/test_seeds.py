"""Drawn workflows and orders on simulated services, with faults and without: every invariant holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.seeds import regressions, simulated, violated

pytestmark = [pytest.mark.process, pytest.mark.timeout(7_200)]

#: The seeds with faults of each part. All parts but the first run at night.
_PARTS = [
    range(150),
    *(pytest.param(range(first, first + 370), marks=pytest.mark.night) for first in range(150, 2000, 370)),
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name the folder in which the figures of seeds are kept, so that they are added up in the end."""
    folder: Path = tmp_path_factory.mktemp("verdicts")
    return str(folder)


def test_all_ends_as_it_was_drawn_when_nothing_goes_wrong() -> None:
    """Processed, undone or held; and nothing is ever recovered."""
    assert violated("--calm", "--count", "50") == ""


@pytest.mark.parametrize("seeds", _PARTS, ids=str)
def test_no_invariant_is_violated_whatever_goes_wrong(seeds: range, verdicts: str) -> None:
    """And after the last fault, everything comes to rest in time."""
    which = ("--first", str(seeds.start), "--count", str(len(seeds)), "--processes", "2")
    assert violated(*which, "--keep", verdicts) == ""


@pytest.mark.night
def test_enough_happened_to_prove_something(verdicts: str) -> None:
    """Every outcome, every kind of faults, wide and deep graphs; and most seeds completed a task (I14)."""
    run = simulated("--count", "2000", "--keep", verdicts, "--whole")
    assert run.returncode == 0, run.stdout


@pytest.mark.night
def test_seeds_that_failed_once_do_not_fail_again() -> None:
    """The defect that each of them has found is fixed."""
    assert violated("--seed", *regressions(calm=False)) == ""
    assert violated("--calm", "--seed", *regressions(calm=True)) == ""


def test_other_process_repeats_a_run_exactly() -> None:
    """The digest is of every request, fault and message."""
    first, second = (simulated("--seed", "14", "--story").stdout.splitlines()[0] for _ in range(2))
    assert first == second
    assert first.startswith("seed 14 (")
