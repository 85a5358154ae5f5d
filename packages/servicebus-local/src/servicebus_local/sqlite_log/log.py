"""Opens a log for this process alone, reads from it, and writes transactions to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from enum import Enum
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from servicebus_local.sqlite_log.checkpoints import CheckpointThread
from servicebus_local.sqlite_log.schema import Schema

#: SQL and its parameters.
type Statement = tuple[str, Sequence[Any]]

#: Seconds that a commit may wait for a truncating checkpoint.
_BUSY_TIMEOUT = 10.0

_sql_of = itemgetter(0)


class LogRefusedError(Exception):
    """The log can't be used. The text says why and what to do, in one line."""


class Synchronous(Enum):
    """How far a committed transaction must have come before it counts (SQLite's PRAGMA synchronous)."""

    #: Written to the operating system: survives a killed process, not a power cut.
    NORMAL = "NORMAL"
    #: Flushed to the disk: survives a power cut, at some price in speed.
    FULL = "FULL"


class SqliteLog:
    """An open log. It belongs to this process until it is closed, or the process ends."""

    def __init__(self, path: Path, schema: Schema, synchronous: Synchronous) -> None:
        """Open the log, or make it.

        Raises LogRefusedError if another process has it or its tables are of another version, and
        sqlite3.DatabaseError if it is damaged.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.enter_context(closing(_take_lock(path, schema)))
            self._connection = opened.enter_context(
                closing(sqlite3.connect(path, autocommit=True, timeout=_BUSY_TIMEOUT))
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(f"PRAGMA synchronous={synchronous.value}")
            self._connection.execute("PRAGMA wal_autocheckpoint=0")
            _prepare(self._connection, schema)
            opened.callback(CheckpointThread(path).stop)
            self._resources = opened.pop_all()

    def close(self) -> None:
        """Stop the checkpoints, close the file and let others have it."""
        self._resources.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Read rows. Only committed ones are ever seen."""
        return self._connection.execute(sql, parameters)

    def commit(self, statements: Iterable[Statement]) -> None:
        """Write all of the statements in their order, or none. Raises sqlite3.Error, and then it is none."""
        execute, execute_many = self._connection.execute, self._connection.executemany
        execute("BEGIN IMMEDIATE")
        try:
            for sql, group in groupby(statements, key=_sql_of):
                execute_many(sql, [parameters for _, parameters in group])
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk, for one, has ended it already
                execute("ROLLBACK")
            raise


def _take_lock(path: Path, schema: Schema) -> sqlite3.Connection:
    """Claim the log for this process; the operating system ends such a lock however the process dies."""
    lock = sqlite3.connect(f"{path}.lock", autocommit=True, timeout=0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        raise LogRefusedError(schema.refusal_of_owner()) from error
    return lock


def _prepare(connection: sqlite3.Connection, schema: Schema) -> None:
    """Make the tables in a new file, and refuse a file of another version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == 0:
        connection.executescript(f"BEGIN; {schema.tables} PRAGMA user_version={schema.version}; COMMIT;")
    elif found != schema.version:
        raise LogRefusedError(schema.refusal_of_version(found))
