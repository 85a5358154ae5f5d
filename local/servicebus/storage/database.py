"""Opens the data folder: one broker at a time, one schema version."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from .checkpoints import CheckpointThread
from .schema import SCHEMA_VERSION, TABLES

_DATABASE_NAME = "messages.sqlite"
_LOCK_NAME = "broker.lock"
#: How long a commit may wait for a truncating checkpoint, in seconds.
_BUSY_TIMEOUT = 10.0


class DataFolderRefused(Exception):  # noqa: N818 - the folder is refused; the text says why
    """The data folder can not be used. The text says why and what to do, in one line."""


class Database:
    """The log's files in a data folder, locked against other brokers until closed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(closing(_lock(folder)))
            self.connection = sqlite3.connect(
                folder / _DATABASE_NAME, isolation_level=None, timeout=_BUSY_TIMEOUT, check_same_thread=False
            )
            stack.enter_context(closing(self.connection))
            _prepare(self.connection, folder)
            checkpoints = CheckpointThread(folder / _DATABASE_NAME)
            stack.callback(checkpoints.stop)
            self._resources = stack.pop_all()

    def close(self) -> None:
        """Stop the checkpoints, close the files and let others in."""
        self._resources.close()


def _lock(folder: Path) -> sqlite3.Connection:
    """Hold an exclusive SQLite lock, which the operating system drops however the process dies."""
    lock = sqlite3.connect(folder / _LOCK_NAME, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        raise DataFolderRefused(
            f"data folder {folder} is in use by another broker: stop it, or choose another folder with --data"
        ) from error
    return lock


def _prepare(connection: sqlite3.Connection, folder: Path) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    # NORMAL outlives a killed process; only a power cut may cost the last commits.
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.executescript(f"BEGIN; {TABLES} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
    elif version != SCHEMA_VERSION:
        raise DataFolderRefused(
            f"data folder {folder} was written by another version (schema {version}, not {SCHEMA_VERSION}): "
            "delete it, or choose another folder with --data"
        )
