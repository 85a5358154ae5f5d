"""Builds the package of `azd deploy`, and finds the packages from PyPI that its code imports."""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from pathspec import GitIgnoreSpec

from tests.house.documents import ROOT


def packaged(root: Path = ROOT) -> Iterator[Path]:
    """Return the files of the package, relative to the root; `.funcignore` has the syntax of `.gitignore`."""
    ignored = GitIgnoreSpec.from_lines((root / ".funcignore").read_text(encoding="utf-8").splitlines())
    for folder, folders, files in root.walk():
        here = folder.relative_to(root)
        folders[:] = [name for name in folders if not ignored.match_file(f"{here / name}/")]
        yield from (here / name for name in files if not ignored.match_file(here / name))


def make_package(path: Path) -> None:
    """Write the zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in packaged():
            archive.write(ROOT / file, file)


def packages_imported(sources: Iterable[Path], *, ours: frozenset[str]) -> dict[str, str]:
    """Return the package of each module that is neither Python's nor ours, by the module's name."""
    owners: dict[str, str] = {}
    for each in distributions():
        folder, name = each.locate_file(""), each.name.lower().replace("_", "-")
        for line in (each.read_text("RECORD") or "").splitlines():
            owners[f"{folder}/{line.partition(',')[0]}"] = name
    modules = {module for source in sources for module in _modules(source)}
    foreign = {each for each in modules if each.partition(".")[0] not in sys.stdlib_module_names | ours}
    return {module: owners[_file_of(module)] for module in sorted(foreign)}


def _modules(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module


def _file_of(module: str) -> str:
    spec = find_spec(module)
    assert spec, f"{module} is not installed"
    assert spec.origin, f"{module} is a namespace: import one of its modules"
    return spec.origin
