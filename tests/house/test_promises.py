"""Each promise names tests that exist, and a test that runs before each commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.documents import ROOT
from tests.house.promises import PAGE, problems

_DAY = "def test_by_day() -> None: ...\n"
_NIGHT = "import pytest\n\n\n@pytest.mark.night\ndef test_by_night() -> None: ...\n"


def test_each_promise_has_its_tests() -> None:
    """The table names at least 100 promises, and no problem is found."""
    found, rows = problems(PAGE.read_text(encoding="utf-8"), ROOT)
    assert found == []
    assert rows > 100


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("| A1 | a promise | `unit test_by_day` | |", ""),
        ("| A1 | a promise | none | |", ""),
        ("| A1 | a promise | `unit test_by_day`; `unit test_by_night` | |", ""),
        ("| D6 | a promise | `unit test_by_night` | |", ""),
        ("| A1 | a promise | | |", "names no test"),
        ("| A1 | a promise | `unit test_missing` | |", "does not exist"),
        ("| A1 | a promise | `unit test_by_night`; `unit test_by_day` | |", "is marked night"),
        ("| A1 | a promise | none | |\n| A1 | a promise | none | |", "2 rows"),
    ],
)
def test_wrong_row_is_found(row: str, expected: str, tmp_path: Path) -> None:
    """A row needs an existing test, and names first a test that is not marked night."""
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "tests/unit/test_sample.py").write_text(_DAY + _NIGHT, encoding="utf-8")
    found, _ = problems(row, tmp_path)
    assert [expected in each for each in found] == ([True] if expected else [])
