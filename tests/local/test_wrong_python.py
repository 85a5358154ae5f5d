"""A Python without the project is told so in one line."""

from __future__ import annotations

import subprocess
import sys

from local.platform import ROOT


def test_python_without_the_project_is_told_which_to_use() -> None:
    """As the shell's own, which may be older; `-S` leaves out what is installed."""
    command = [sys.executable, "-S", "-m", "local", "up"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "this Python lacks the project: `make setup`, then .venv/bin/python -m local\n"
