"""The SQLite file in a data folder: one owner at a time, quick commits, checkpoints on another thread."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from servicebus_local.storage.schema import TABLES, VERSION

_log = logging.getLogger(__name__)

#: SQL and its parameters.
type SqlWrite = tuple[str, Sequence[Any]]

#: Seconds that a commit may wait for a truncating checkpoint.
_BUSY_TIMEOUT = 10.0
#: Seconds between two checks of the write-ahead log's size.
_CHECKPOINT_INTERVAL = 2.0
_MEGABYTE = 1024 * 1024
#: From this size in bytes, the write-ahead log is copied into the database, concurrently with commits.
_PASSIVE_SIZE = 8 * _MEGABYTE
#: From this size in bytes, commits wait until the write-ahead log is copied and emptied.
_TRUNCATE_SIZE = 64 * _MEGABYTE

_sql_of = itemgetter(0)


class LogError(Exception):
    """The log can't be used. The text gives the reason and the fix in one line."""


class MessageLog:
    """An open log. This process owns it until it is closed or the process ends.

    A commit is written to the operating system: it survives a killed process, not a power failure.
    """

    def __init__(self, folder: Path) -> None:
        """Open the log in a data folder, or create it.

        Raises LogError if another process uses it or its tables are of another version, and
        sqlite3.DatabaseError if it is damaged.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.path = path = folder / "messages.sqlite"
        with ExitStack() as opened:
            opened.enter_context(closing(_take_lock(path)))
            self._connection = opened.enter_context(
                closing(sqlite3.connect(path, autocommit=True, timeout=_BUSY_TIMEOUT))
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute("PRAGMA wal_autocheckpoint=0")
            _prepare(self._connection, folder)
            opened.callback(_Checkpoints(path).stop)
            self._resources = opened.pop_all()

    def close(self) -> None:
        """Stop the checkpoints, close the file and release it for other processes."""
        self._resources.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Read committed rows."""
        return self._connection.execute(sql, parameters)

    def commit(self, writes: Iterable[SqlWrite]) -> None:
        """Execute all writes in their order. Raises sqlite3.Error without executing any write."""
        execute, execute_many = self._connection.execute, self._connection.executemany
        execute("BEGIN IMMEDIATE")
        try:
            for sql, group in groupby(writes, key=_sql_of):
                execute_many(sql, [parameters for _, parameters in group])
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # some errors, such as a full disk, have ended it already
                execute("ROLLBACK")
            raise


def _take_lock(path: Path) -> sqlite3.Connection:
    """Lock the log for this process; the operating system releases the lock at every end of the process."""
    lock = sqlite3.connect(f"{path}.lock", autocommit=True, timeout=0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        raise LogError(
            f"data folder {path.parent} is in use by another broker: "
            "stop it, or choose another folder with --data"
        ) from error
    return lock


def _prepare(connection: sqlite3.Connection, folder: Path) -> None:
    """Create the tables in a new file, and refuse a file of another version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == 0:
        connection.executescript(f"BEGIN; {TABLES} PRAGMA user_version={VERSION}; COMMIT;")
    elif found != VERSION:
        raise LogError(
            f"data folder {folder} was written by another version (schema {found}, this one has {VERSION}): "
            "delete it, or choose another folder with --data"
        )


class _Checkpoints:
    """Moves the write-ahead log into the database on a thread, until `stop`.

    An automatic checkpoint syncs to disk inside the commit that triggers it: the slowest commits then take
    tens of milliseconds instead of a few.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._write_ahead_log = database.with_name(f"{database.name}-wal")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"checkpoints {database.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for it."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(sqlite3.connect(self._database, autocommit=True)) as connection:
            while not self._stopping.wait(_CHECKPOINT_INTERVAL):
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
