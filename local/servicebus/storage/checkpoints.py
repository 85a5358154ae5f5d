"""Moves SQLite's write-ahead log into the database on a thread of its own.

An automatic checkpoint syncs to disk inside the commit that triggers it: the slowest sends take tens of
milliseconds then, instead of a few.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 2.0
_MEGABYTE = 1024 * 1024
#: From this size the log is copied into the database, beside running commits.
PASSIVE_BYTES = 8 * _MEGABYTE
#: From this size commits wait until the log is copied and emptied.
TRUNCATE_BYTES = 64 * _MEGABYTE


class CheckpointThread:
    """Looks at the write-ahead log every two seconds."""

    def __init__(self, database_file: Path) -> None:
        self._database_file = database_file
        self._write_ahead_log = database_file.with_name(database_file.name + "-wal")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="servicebus-checkpoints", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(sqlite3.connect(self._database_file, isolation_level=None)) as database:
            while not self._stopping.wait(INTERVAL_SECONDS):
                try:
                    self._checkpoint(database)
                except sqlite3.Error:
                    _log.warning(
                        "The write-ahead log could not be checkpointed; trying again.", exc_info=True
                    )

    def _checkpoint(self, database: sqlite3.Connection) -> None:
        size = self._write_ahead_log.stat().st_size if self._write_ahead_log.exists() else 0
        if size >= PASSIVE_BYTES:
            database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if size >= TRUNCATE_BYTES:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
