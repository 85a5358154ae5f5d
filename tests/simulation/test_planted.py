"""The search sees each bug that is planted in the product."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

from functions.core.derive import undo_order
from tests.simulation.planted import MOST_LINES, PLANTED, Edit, edited_sources, planted
from tests.simulation.search import FIRST_SEEDS, first_violation

#: A seed below this number sees the bug.
_SEEDS = 2000


@pytest.mark.night
@pytest.mark.no_cover
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_seen(bug: str) -> None:
    """It is a violation or a defect of one of the first seeds; the recorded one is tried first."""
    recorded = json.loads(FIRST_SEEDS.read_text(encoding="utf-8")).get(bug, 0)
    assert recorded < _SEEDS
    with planted(bug):
        assert first_violation([recorded, *range(_SEEDS)]) is not None


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_small_and_removed_again(bug: str) -> None:
    """It changes at most five lines, and the functions have their own code afterwards."""
    before = inspect.unwrap(undo_order).__code__
    with planted(bug):
        pass
    lines = sum(max(edit.old.count("\n"), edit.new.count("\n")) + 1 for edit in PLANTED[bug])
    assert (inspect.unwrap(undo_order).__code__ is before, lines <= MOST_LINES) == (True, True)


@pytest.mark.night
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_leaves_the_linter_green(bug: str) -> None:
    """The linter would find the bug otherwise, and the search would not be needed."""
    for path, source in edited_sources(bug).items():
        command = [sys.executable, "-m", "ruff", "check", "--quiet", "--stdin-filename", str(path), "-"]
        lint = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        assert (lint.returncode, lint.stdout) == (0, "")


def test_edit_that_does_not_fit_the_source_is_an_error() -> None:
    """A bug that is not planted would be seen by no seed."""
    PLANTED["none"] = (Edit("core.derive", "no such line", ""),)
    try:
        with pytest.raises(ValueError, match="occurs 0 times"), planted("none"):
            pass
    finally:
        del PLANTED["none"]
