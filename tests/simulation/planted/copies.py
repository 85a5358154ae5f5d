"""A copy of the application, in which a bug can be planted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_PATCHES = Path(__file__).parent
#: What a run needs of the project.
_COPIED = (
    "functions",
    "local",
    "tests/fakes",
    "tests/model",
    "tests/simulation",
    "tests/unit/pattern",
)
_FILES = ("tests/__init__.py", "tests/unit/__init__.py", "infra/queues.json")


def every_bug() -> list[str]:
    """Name all patches."""
    return sorted(path.stem for path in _PATCHES.glob("*.patch"))


def make_copy(folder: Path) -> None:
    """Copy what is needed."""
    for name in _COPIED:
        shutil.copytree(_ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_ROOT / name, folder / name)


@contextmanager
def planted(copy: Path, bug: str) -> Iterator[None]:
    """Have a bug in a copy."""
    _patch(copy, bug)
    try:
        yield
    finally:
        _patch(copy, bug, "--reverse")


def _patch(copy: Path, bug: str, *options: str) -> None:
    subprocess.run(
        ["git", "apply", "--unsafe-paths", f"--directory={copy}", *options, _PATCHES / f"{bug}.patch"],
        check=True,
        cwd=copy,
    )
