"""The project does not grow, and its sources stay readable."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.house.budgets import bounds, figures
from tests.house.documents import ROOT, our_files

_MOST_LINES = 600
_SAYS_NOTHING = frozenset({"utils", "helpers", "manager", "common"})

#: The application with its local programs; each package is a separate program.
RINGS = {
    "application": ("functions", "local", "tests/chaos"),
    "functions-local": ("packages/functions-local/src",),
    "servicebus-local": ("packages/servicebus-local/src",),
}


def test_size_is_within_its_budget() -> None:
    """Each figure has a bound in `tests/budgets.toml`, and is not above it."""
    measured, most = figures(), bounds()
    assert measured.keys() == most.keys()
    assert {name: count for name, count in measured.items() if count > most[name]} == {}


def test_no_file_is_too_long() -> None:
    """No Python file is longer than 600 lines."""
    files = [path for path in our_files() if path.suffix == ".py"]
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {str(path): count for path, count in lines.items() if count > _MOST_LINES} == {}


def test_names_say_what_is_there() -> None:
    """No folder or file is called `utils`, `helpers`, `manager` or `common`."""
    paths = {part for file in our_files() for part in (file, *file.parents) if ROOT in part.parents}
    assert [path for path in paths if path.stem in _SAYS_NOTHING] == []


@pytest.mark.parametrize("ring", RINGS)
def test_no_two_classes_have_one_name(ring: str) -> None:
    """A name means the same class everywhere in a ring. Each workflow has names of its own."""
    workflows = set((ROOT / "functions/workflows").glob("*/**/*.py"))
    places: defaultdict[str, list[str]] = defaultdict(list)
    for folder in RINGS[ring]:
        for path in sorted(set((ROOT / folder).rglob("*.py")) - workflows):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
