"""Measure the size of the project: lines, files and words that `tests/budgets.toml` bounds.

    python -m tests.house.budgets

Prints each figure with its bound. Lines and files are counted over the Python files that git tracks.
"""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

from tests.house.documents import ROOT

PAGE = ROOT / "tests/budgets.toml"


def bounds() -> dict[str, int]:
    """Return the bound of each figure."""
    return dict(tomllib.loads(PAGE.read_text(encoding="utf-8"))["most"])


def figures() -> dict[str, int]:
    """Return the measured figures, by the names of `tests/budgets.toml`."""
    python = tracked("*.py")
    application = [path for path in python if path.parts[0] == "functions" and not _is_uncounted(path)]
    sources = [path for path in python if path.match("packages/*/src/**") or "src" in path.parts[:3]]
    package_tests = [path for path in python if path.parts[0] == "packages" and "tests" in path.parts[:3]]
    folders = ("functions", "tests", "local", "packages")
    return {
        "functions_lines": _lines(application),
        "functions_files": len(application),
        "tests_lines": _lines([path for path in python if path.parts[0] == "tests"]),
        "local_lines": _lines([path for path in python if path.parts[0] == "local"]),
        "packages_src_lines": _lines([path for path in sources if path.parts[0] == "packages"]),
        "packages_tests_lines": _lines(package_tests),
        "other_lines": _lines([path for path in python if path.parts[0] not in folders]),
        "docs_words": sum(len(_text(path).split()) for path in [*tracked("docs/*.md"), Path("README.md")]),
    }


def tracked(pattern: str) -> list[Path]:
    """Return the files that git tracks and that exist, relative to the root; `*` also matches `/`."""
    listed = subprocess.run(["git", "ls-files", "-z", pattern], cwd=ROOT, check=True, capture_output=True)
    paths = (Path(name) for name in listed.stdout.decode().split("\0") if name)
    return [path for path in paths if (ROOT / path).exists()]


def _is_uncounted(path: Path) -> bool:
    """Return whether the file belongs to a folder that will replace another one, and is not counted yet."""
    beside: list[str] = tomllib.loads(PAGE.read_text(encoding="utf-8"))["beside"]
    return any(path.is_relative_to(folder) for folder in beside)


def _lines(paths: list[Path]) -> int:
    return sum(len(_text(path).splitlines()) for path in paths)


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


if __name__ == "__main__":
    measured = figures()
    for name, bound in bounds().items():
        print(f"{name:22}{measured[name]:8,} of {bound:7,}{'  too large' if measured[name] > bound else ''}")
