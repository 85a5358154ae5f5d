"""Drawn workflows and orders on simulated services, with faults and without: every invariant holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.seeds import regressions, simulated, violated

pytestmark = [pytest.mark.process, pytest.mark.timeout(3_600)]

#: Seeds of one test, the number of tests of each kind, and of those with faults that run by day.
_SEEDS = 50
_CALM, _BY_DAY, _FAULTY = 1, 3, 40
_PARTS = [*range(_BY_DAY), *(pytest.param(part, marks=pytest.mark.night) for part in range(_BY_DAY, _FAULTY))]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name the folder in which the figures of seeds are kept, so that they are added up in the end."""
    folder: Path = tmp_path_factory.mktemp("verdicts")
    return str(folder)


@pytest.mark.parametrize("part", range(_CALM))
def test_all_ends_as_it_was_drawn_when_nothing_goes_wrong(part: int) -> None:
    """Processed, undone or held; and nothing is ever recovered."""
    assert violated("--calm", "--first", str(part * _SEEDS), "--count", str(_SEEDS)) == ""


@pytest.mark.parametrize("part", _PARTS)
def test_no_invariant_is_violated_whatever_goes_wrong(part: int, verdicts: str) -> None:
    """And after the last fault, everything comes to rest in time."""
    first = str(part * _SEEDS)
    assert violated("--first", first, "--count", str(_SEEDS), "--keep", verdicts) == ""


@pytest.mark.night
def test_enough_happened_to_prove_something(verdicts: str) -> None:
    """Every outcome, every kind of faults, wide and deep graphs; and most seeds completed a task (I14)."""
    run = simulated("--count", str(_FAULTY * _SEEDS), "--keep", verdicts, "--whole")
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
