"""No seed violates an invariant, and the search reaches the states that matter."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.__main__ import main
from tests.simulation.planted import planted
from tests.simulation.search import first_violation, run_seed, search

#: Seeds that found a defect of the product, with the defect.
REGRESSIONS = {14: "a release message that was sent again was dropped as a duplicate"}
#: Seeds of `make test` and of `make test-all`, in parts.
_SEEDS, _SEEDS_AT_NIGHT, _PART = 150, 2000, 25
_PARTS = [
    pytest.param(first, marks=pytest.mark.night if first >= _SEEDS else [])
    for first in range(0, _SEEDS_AT_NIGHT, _PART)
]

pytestmark = [pytest.mark.timeout(600), pytest.mark.no_cover]


@pytest.mark.parametrize("first", _PARTS)
def test_no_seed_violates_an_invariant(first: int) -> None:
    """Some seeds together see most states of tasks and steps."""
    covered = Counter(fact for seed in range(first, first + _PART) for _, fact in run_seed(seed).covered)
    for fact in ("Processed", "Compensated", "Error", "recovered", "for deferred", "do unknown", "undo done"):
        assert covered[fact] > 0


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_defect_does_not_return(seed: int) -> None:
    """A seed that was violated once is not violated again."""
    assert run_seed(seed).violation is None


def test_seed_repeats_its_course() -> None:
    """A violation can be examined again, in another process with another order of sets."""
    digests = {_digest_in_a_process("1"), _digest_in_a_process("2")}
    assert len(digests) == 1


def _digest_in_a_process(hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "7"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    story = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    return hashlib.sha256(story).hexdigest()


def test_command_prints_a_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit code is 1 for a violated seed.

    The story of a task begins with its first change, and ends with the verdict on the seed.
    """
    monkeypatch.setattr("sys.argv", ["simulation", "--first", "3", "--count", "1"])
    assert main() == 0
    assert search(0, 0) == 0
    assert capsys.readouterr().out.startswith("1 seeds, ")
    monkeypatch.setattr("sys.argv", ["simulation", "--seed", "3", "--task", "t0", "--calm"])
    assert main() == 0
    story = capsys.readouterr().out.splitlines()
    assert story[-1] == "seed 3: no violation"
    assert all("t0" in line or "**" in line for line in story[:-1])


def test_command_leaves_out_faults_that_cause_no_violation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The violation that is printed needs fewer kinds of faults than the seed draws."""
    with planted("undo_in_order_of_dispatch"):
        found = first_violation(range(3, 100))
        assert found is not None
        monkeypatch.setattr("sys.argv", ["simulation", "--seed", str(found[0]), "--shrink"])
        assert main() == 1
    assert "not necessary: " in capsys.readouterr().out
