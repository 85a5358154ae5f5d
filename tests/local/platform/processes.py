"""Looking at processes from outside."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

#: Seconds within which everything is gone after the platform itself was killed. The watchdog is the last:
#: it waits its four seconds out where nobody reaps the parts, as in a container whose first process is no
#: init.
LEAVING_WITHIN = 8.0


def descendants(pid: int) -> list[psutil.Process]:
    """Return a process and all that it has started, and they."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def still_there(processes: Iterable[psutil.Process], within: float) -> list[psutil.Process]:
    """Wait until the processes are gone, and return those that are not after `within` seconds."""
    deadline = time.monotonic() + within
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
