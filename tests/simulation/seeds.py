"""Runs seeds in a process of their own, in which sets have the same order every time.

It computes all the time, and so gives way to the tests beside it: a platform has time limits, it has none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def simulated(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run `python -m tests.simulation`, here or in a copy of the project."""
    return subprocess.run(
        ["nice", sys.executable, "-m", "tests.simulation", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


def violated(*arguments: str) -> str:
    """Run seeds, and give what is violated; nothing when all is well."""
    run = simulated(*arguments)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def regressions(*, calm: bool) -> list[str]:
    """Read the seeds that once failed, without faults or with them."""
    lines = (Path(__file__).parent / "regressions.txt").read_text(encoding="utf-8").splitlines()
    found = [line.split() for line in lines if line and not line.startswith("#")]
    return [words[0] for words in found if (words[1] == "calm") is calm]
