"""What is kept of the planted bugs, and what the reliability page says of them, is all of them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.checks.violations import Invariant
from tests.simulation.planted.caught import kept
from tests.simulation.planted.copies import every_bug, make_copy, planted

_PAGE = Path(__file__).parents[2] / "docs/reliability.md"
_ROW = re.compile(r"^\| (\w+) \| (\d+) \| (I[\dI ]+) \| (?:yes|.) \|$", re.MULTILINE)
_ALONE = re.compile(r"^Seen by one invariant alone: ([^.]+)\.", re.MULTILINE)
#: By how many seeds each bug is caught.
_MOST_SEEDS = 2_000


def test_every_planted_bug_is_caught_by_a_seed_below_2000() -> None:
    """None lies there that the simulation does not see, and none is kept that is gone."""
    assert sorted(kept()) == every_bug()
    assert all(caught.seed < _MOST_SEEDS for caught in kept().values())


def test_every_bug_can_be_planted(tmp_path: Path) -> None:
    """Whoever changes the lines that a patch changes learns of it here, not by the runs of its seed."""
    make_copy(tmp_path)
    for bug in every_bug():
        with planted(tmp_path, bug):
            pass


def test_page_has_the_bugs_that_are_kept() -> None:
    """With their seeds, and the invariants that see them."""
    rows = [(bug, int(seed), tuple(found.split())) for bug, seed, found in _ROW.findall(_page())]
    assert rows == [(each.bug, each.seed, each.invariants) for each in sorted(kept().values())]


def test_each_invariant_of_a_run_alone_sees_a_bug() -> None:
    """All are needed; that a whole campaign is not vacuous (I14) is not about what one run does."""
    alone = {caught.invariants[0] for caught in kept().values() if len(caught.invariants) == 1}
    assert alone == {each.number for each in Invariant} - {Invariant.NOT_VACUOUS.number}
    [told] = _ALONE.findall(_page())
    assert set(re.split(r",\s+", told)) == alone


def _page() -> str:
    return _PAGE.read_text(encoding="utf-8")
