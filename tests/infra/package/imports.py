"""Which packages from PyPI the deployed code imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path


def packages_imported(sources: Iterable[Path], *, ours: frozenset[str]) -> dict[str, str]:
    """Return the package of each module that is neither Python's nor ours, by the module's name."""
    modules = {module for source in sources for module in _modules(source)}
    foreign = {each for each in modules if each.partition(".")[0] not in sys.stdlib_module_names | ours}
    return {module: _package_of(module) for module in sorted(foreign)}


def _modules(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module


def _package_of(module: str) -> str:
    spec = find_spec(module)
    assert spec, f"{module} is not installed"
    assert spec.origin, f"{module} is a namespace: import what is in it"
    return _owners()[spec.origin]


@cache
def _owners() -> dict[str, str]:
    """Return the package of each installed file, spelled as in requirements files."""
    owners: dict[str, str] = {}
    for each in distributions():
        folder, name = each.locate_file(""), each.name.lower().replace("_", "-")
        for line in (each.read_text("RECORD") or "").splitlines():
            owners[f"{folder}/{line.partition(',')[0]}"] = name
    return owners
