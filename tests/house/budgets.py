"""Measure the size of the project: lines, files and words that `tests/budgets.toml` bounds.

    python -m tests.house.budgets

Prints each figure with its bound. Lines and files are counted over the Python files that git tracks,
without the workflows of an adopter.
Exit code 1: a figure is too large.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from itertools import filterfalse
from pathlib import Path

from tests.house.documents import ROOT, SAMPLES, is_of_added_workflow

PAGE = ROOT / "tests/budgets.toml"


def bounds() -> dict[str, int]:
    """Return the bound of each figure."""
    return dict(tomllib.loads(PAGE.read_text(encoding="utf-8"))["most"])


def figures() -> dict[str, int]:
    """Return the figures by the names of `tests/budgets.toml`. Workflows of adopters do not count."""
    files, lines = Counter[str](), Counter[str]()
    for path in filterfalse(is_of_added_workflow, tracked("*.py")):
        files[_area(path)] += 1
        lines[_area(path)] += len(_text(path).splitlines())
    areas = ("functions", "tests", "local", "packages_src", "packages_tests", "other")
    return {
        **{f"{area}_lines": lines[area] for area in areas},
        "functions_files": files["functions"],
        "docs_words": sum(len(_text(path).split()) for path in [*tracked("docs/*.md"), Path("README.md")]),
    }


def tracked(pattern: str) -> list[Path]:
    """Return the files that git tracks and that exist, relative to the root; `*` also matches `/`."""
    listed = subprocess.run(["git", "ls-files", "-z", pattern], cwd=ROOT, check=True, capture_output=True)
    paths = (Path(name) for name in listed.stdout.decode().split("\0") if name)
    return [path for path in paths if (ROOT / path).exists()]


def _area(path: Path) -> str:
    match path.parts:
        case ("functions", "workflows", name, _, *_) if name not in SAMPLES:
            return "adopted"
        case ("functions" | "tests" | "local" as folder, _, *_):
            return folder
        case ("packages", _, "src" | "tests" as part, *_):
            return f"packages_{part}"
        case _:
            return "other"


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def main() -> int:
    """Print each figure, and return the exit code: 1 if one is too large."""
    measured, most = figures(), bounds()
    for name, bound in most.items():
        print(f"{name:22}{measured[name]:8,} of {bound:7,}{'  too large' if measured[name] > bound else ''}")
    return int(any(measured[name] > bound for name, bound in most.items()))


if __name__ == "__main__":
    sys.exit(main())
