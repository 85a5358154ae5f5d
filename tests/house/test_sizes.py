"""The sources stay readable: no file is too long, and names are specific."""

from __future__ import annotations

from tests.house.documents import ROOT, our_files

_MOST_LINES = 600
_SAYS_NOTHING = frozenset({"utils", "helpers", "manager", "common"})


def test_no_file_is_too_long() -> None:
    """No Python file is longer than 600 lines."""
    files = [path for path in our_files() if path.suffix == ".py"]
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files
    }
    assert {path: count for path, count in lines.items() if count > _MOST_LINES} == {}


def test_names_say_what_is_there() -> None:
    """No folder or file is called `utils`, `helpers`, `manager` or `common`."""
    paths = {part for file in our_files() for part in (file, *file.parents) if ROOT in part.parents}
    assert [path for path in paths if path.stem in _SAYS_NOTHING] == []
