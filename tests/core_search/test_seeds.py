"""No seed violates an invariant, and the search reaches the states that matter."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.core_search.__main__ import main
from tests.core_search.search import run_seed, search

#: Seeds that found a defect of the product, with the defect.
REGRESSIONS = {14: "a release message that was sent again was dropped as a duplicate"}


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_no_seed_violates_an_invariant(first: int) -> None:
    """Twenty seeds together see most states of tasks and steps."""
    covered = Counter(fact for seed in range(first, first + 20) for _, fact in run_seed(seed).covered)
    for fact in ("Processed", "Compensated", "Error", "recovered", "for deferred", "do unknown", "undo done"):
        assert covered[fact] > 0


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_defect_does_not_return(seed: int) -> None:
    """A seed that was violated once is not violated again."""
    assert run_seed(seed).violation is None


def test_seed_repeats_its_course() -> None:
    """A violation can be examined again."""
    assert run_seed(7).story == run_seed(7).story


def test_command_prints_a_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit code is 1 for a violated seed."""
    monkeypatch.setattr("sys.argv", ["core_search", "--first", "3", "--count", "1"])
    assert main() == 0
    assert search(0, 0) == 0
    assert capsys.readouterr().out.startswith("1 seeds, ")
