"""Moves SQLite's write-ahead log into the database on a thread of its own.

An automatic checkpoint syncs to disk inside the commit that triggers it: the slowest commits take tens of
milliseconds then, instead of a few.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

_log = logging.getLogger(__name__)

#: Seconds between two looks at the size of the write-ahead log.
_INTERVAL = 2.0
_MEGABYTE = 1024 * 1024
#: Bytes from which on the log is copied into the database, beside running commits.
_PASSIVE_SIZE = 8 * _MEGABYTE
#: Bytes from which on commits wait until the log is copied and emptied.
_TRUNCATE_SIZE = 64 * _MEGABYTE


class CheckpointThread:
    """Looks at the write-ahead log of one database again and again, until `stop`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._write_ahead_log = database.with_name(f"{database.name}-wal")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"checkpoints {database.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(sqlite3.connect(self._database, autocommit=True)) as connection:
            while not self._stopping.wait(_INTERVAL):
                try:
                    self._checkpoint(connection)
                except sqlite3.Error:
                    _log.warning("%s could not be checkpointed; trying again", self._database, exc_info=True)

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        size = self._write_ahead_log.stat().st_size if self._write_ahead_log.exists() else 0
        if size >= _PASSIVE_SIZE:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if size >= _TRUNCATE_SIZE:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
