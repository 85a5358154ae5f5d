"""The model sees the planted bugs that the reliability page says it sees; others are not run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.planted.copies import make_copy, planted

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(600)]

_PAGE = Path(__file__).parents[2] / "docs/reliability.md"
_SEEN = re.compile(r"^\| (\w+) \| .* \| yes \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what is needed."""
    folder = tmp_path_factory.mktemp("planted")
    make_copy(folder)
    return folder


@pytest.mark.parametrize("bug", _SEEN.findall(_PAGE.read_text(encoding="utf-8")))
def test_planted_bug_is_seen_by_the_model(copy: Path, bug: str) -> None:
    """A search violates a rule: one that fails otherwise, or ends, has not seen the bug."""
    command = ["nice", sys.executable, "-m", "tests.model"]
    with planted(copy, bug):
        run = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert re.search("^AssertionError", run.stderr, re.MULTILINE), run.stderr + run.stdout
