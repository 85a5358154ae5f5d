"""The tool that finds phrases that are not plain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.prose import places

_PYTHON, _PAGE = Path("functions/late.py"), Path("docs/page.md")


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        (_PYTHON, '"""Return the overdue tasks."""\n', []),
        (_PYTHON, '"""Return the tasks.\n\nThe sweep goes on with what is left.\n"""\n', [3]),
        (_PYTHON, "x = 1  # so many rows\ny = 'so many rows'\n", [1]),
        (_PYTHON, "def tell_them() -> None: ...\n\n\nclass Told: ...\n", [4]),
        (Path("functions/untold.py"), "", [1]),
        (
            _PAGE,
            "Rows: what is there is kept.\n\n```\nwhat is there\n```\nThe row `of before` is kept.\n",
            [1],
        ),
    ],
)
def test_places_are_found(path: Path, text: str, lines: list[int]) -> None:
    """In docstrings, comments, names and pages, but not in code."""
    assert [place.line for place, _ in places(path, text)] == lines
