"""Moves SQLite's write-ahead log into the database on a thread of its own.

An automatic checkpoint syncs to disk inside the commit that triggers it, and the slowest commits then take
tens of milliseconds instead of a few.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

_log = logging.getLogger(__name__)

#: Seconds between two checks of the write-ahead log's size.
_INTERVAL = 2.0
_MEGABYTE = 1024 * 1024
#: Size in bytes from which the log is copied into the database, concurrently with commits.
_PASSIVE_SIZE = 8 * _MEGABYTE
#: Size in bytes from which commits wait until the log is copied and emptied.
_TRUNCATE_SIZE = 64 * _MEGABYTE


class CheckpointThread:
    """Checks the size of one database's write-ahead log at intervals, until `stop`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._write_ahead_log = database.with_name(f"{database.name}-wal")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"checkpoints {database.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for its end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(sqlite3.connect(self._database, autocommit=True)) as connection:
            while not self._stopping.wait(_INTERVAL):
                try:
                    self._checkpoint(connection)
                except sqlite3.Error:
                    _log.warning("%s could not be checkpointed; retrying", self._database, exc_info=True)

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        size = self._write_ahead_log.stat().st_size if self._write_ahead_log.exists() else 0
        if size >= _PASSIVE_SIZE:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if size >= _TRUNCATE_SIZE:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
