"""The house stays readable: no file grows past what a reader can hold."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
_MOST_LINES = 300


def test_no_file_is_too_long() -> None:
    """No Python file of ours is longer than 300 lines."""
    folders = (ROOT / "functions", ROOT / "local", ROOT / "tests")
    files = [ROOT / "function_app.py", *(path for folder in folders for path in folder.rglob("*.py"))]
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files
    }
    assert {path: count for path, count in lines.items() if count > _MOST_LINES} == {}


def test_no_folder_or_file_is_named_after_nothing() -> None:
    """No `utils`, `helpers`, `manager` or `common`: a name says what lives there."""
    empty_names = {"utils", "helpers", "manager", "common"}
    paths = [path for folder in ("functions", "local", "tests") for path in (ROOT / folder).rglob("*")]
    assert [path for path in paths if path.stem in empty_names] == []
