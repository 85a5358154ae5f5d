"""File locks, which the operating system releases at every end of the process."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def try_lock(file: Path, timeout: float = 0.0) -> sqlite3.Connection | None:
    """Lock `file` for this process until the result is closed; None if another process has it.

    `timeout` is the time in seconds to wait for the other process.
    """
    lock = sqlite3.connect(file, autocommit=True, timeout=timeout)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        lock.close()
        return None
    return lock
