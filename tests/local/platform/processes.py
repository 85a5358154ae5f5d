"""Looking at processes from outside."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

#: Seconds after which something counts as never happening, far above what a busy machine needs.
PATIENCE = 60.0


def descendants(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def left_running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Wait until the processes are gone, and return those that are still there after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    left = [process for process in processes if _runs(process)]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [process for process in left if _runs(process)]
    return left


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
