"""Check the table of promises in `tests/README.md` against the tests.

A row names a test as `folder test_name`. The folder is below `tests/`, or is `packages/NAME`.
The test is in any file below that folder.

    python -m tests.house.promises

Prints one line for each problem, then a summary. Exit code: 0 no problem, 1 a problem.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from tests.house.documents import ROOT, is_of_removed_sample

PAGE = ROOT / "tests/README.md"
#: Rows whose tests run only at night: a chaos run and a search by planted bugs take more than ten minutes.
NIGHT_ONLY = frozenset({"D6", "D7b"})

_ID = re.compile(r"[A-G]\d+[a-z]?")
_NAMED = re.compile(r"`(\S+) ((?:test_|Test)\w+)`")
_COLUMNS = 4


@cache
def tests_below(folder: Path) -> dict[str, bool]:
    """Return the tests in the files below a folder; the value is true for a test that `make test` runs."""
    found = dict[str, bool]()
    for path in sorted(folder.rglob("test_*.py")):
        for name, is_night in _tests_of(ast.parse(path.read_text(encoding="utf-8"))):
            found[name] = found.get(name, False) or not is_night
    return found


def _tests_of(tree: ast.Module) -> list[tuple[str, bool]]:
    """Return each test's name, and whether it or its module or class is marked `night`."""
    found, module_is_night = list[tuple[str, bool]](), False
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                module_is_night = _is_night([value])
            case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("Test"):
                found.append((name, False))
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.append((node.name, _is_night(node.decorator_list)))
            case _:
                pass
    return [(name, is_night or module_is_night) for name, is_night in found]


def _is_night(marks: list[ast.expr]) -> bool:
    names = (node.attr for mark in marks for node in ast.walk(mark) if isinstance(node, ast.Attribute))
    return "night" in names


def problems(page: str, project: Path) -> tuple[list[str], int]:
    """Return the problems of the page's tables, and the number of their rows."""
    found, ids = [], Counter[str]()
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        row = cells[0]
        if not _ID.fullmatch(row):
            continue
        ids[row] += 1
        tests = cells[2] if len(cells) == _COLUMNS else ""
        named = _NAMED.findall(tests)
        if not named and not tests.startswith(("none", "weak")):
            found.append(f"{row}: not 4 cells, or names no test and says neither 'none' nor 'weak'")
        run_by_day = [_is_run_by_day(project, folder, test) for folder, test in named]
        found += [
            f"{row}: {folder} {test} does not exist"
            for (folder, test), by_day in zip(named, run_by_day, strict=True)
            if by_day is None
        ]
        if run_by_day and run_by_day[0] is False and row not in NIGHT_ONLY:
            found.append(f"{row}: the first test is marked night: put a test that `make test` runs before it")
    return found + [f"{row}: {count} rows" for row, count in ids.items() if count > 1], ids.total()


def _is_run_by_day(project: Path, folder: str, test: str) -> bool | None:
    """Return whether `make test` runs the test, or None if there is no such test.

    A test of a sample workflow that was deleted counts as run.
    """
    if is_of_removed_sample(folder):
        return True
    below = project / folder / "tests" if folder.startswith("packages/") else project / "tests" / folder
    return tests_below(below).get(test)


if __name__ == "__main__":
    lines, rows = problems(PAGE.read_text(encoding="utf-8"), ROOT)
    print(*lines, f"{rows} rows, {len(lines)} problems", sep="\n")
    sys.exit(bool(lines))
