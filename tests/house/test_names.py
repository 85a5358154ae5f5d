"""One name for one thing: no two classes with the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: The application, and what runs and tests it here; each package is a separate program.
RINGS = {
    "application": ("functions", "local", "tests/chaos"),
    "functions-local": ("packages/functions-local/src",),
    "servicebus-local": ("packages/servicebus-local/src",),
}


@pytest.mark.parametrize("ring", RINGS)
def test_no_two_classes_have_one_name(ring: str) -> None:
    """A name means the same class everywhere in a ring."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for folder in RINGS[ring]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
