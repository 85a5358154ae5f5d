"""Bugs that are planted in a copy of the application: the simulation sees each of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

_ROOT = Path(__file__).parents[2]
_PATCHES = Path(__file__).parent / "planted"
#: What a run needs of the project.
_COPIED = ("functions", "local", "tests/chaos", "tests/simulation")
_FILES = ("tests/__init__.py", "infra/queues.json")
#: Seeds by which each must be seen; those that show when nothing goes wrong are looked for so.
_MOST_SEEDS = 100
_CALM = frozenset({"scheduler_hears_too_late", "undo_in_order_of_dispatch"})


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what is needed."""
    folder = tmp_path_factory.mktemp("planted")
    for name in _COPIED:
        shutil.copytree(_ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_ROOT / name, folder / name)
    return folder


def _patch(folder: Path, name: str, *options: str) -> None:
    subprocess.run(
        ["git", "apply", "--unsafe-paths", f"--directory={folder}", *options, _PATCHES / f"{name}.patch"],
        check=True,
        cwd=folder,
    )


@pytest.mark.parametrize("name", sorted(path.stem for path in _PATCHES.glob("*.patch")))
def test_planted_bug_is_seen(copy: Path, name: str) -> None:
    """It violates an invariant, in one of the first seeds."""
    _patch(copy, name)
    try:
        options = ["--first", "0", "--count", str(_MOST_SEEDS), "--stop"]
        run = subprocess.run(
            [sys.executable, "-m", "tests.simulation", *options, *(["--calm"] if name in _CALM else [])],
            cwd=copy,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        _patch(copy, name, "--reverse")
    assert run.returncode == 1, run.stderr
    assert "  I" in run.stdout, run.stdout
