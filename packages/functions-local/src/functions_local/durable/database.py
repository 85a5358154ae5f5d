"""The engine's SQLite file: a place for each host, and one commit for all writes of a loop iteration.

A commit is expensive, so all transactions of one iteration of the event loop are committed together, in the
order of their calls. If the shared commit fails, each transaction is committed alone, so that a failing one
does not affect the others.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

from functions_local.locks import try_lock

#: Seconds between two checks of the write-ahead log's size.
_INTERVAL = 2.0
_MEGABYTE = 1024 * 1024
#: Size in bytes from which the log is copied into the database, concurrently with commits.
_PASSIVE_SIZE = 8 * _MEGABYTE
#: Size in bytes from which commits wait until the log is copied and emptied.
_TRUNCATE_SIZE = 64 * _MEGABYTE


class CheckpointThread:
    """Moves one database's write-ahead log into it when the log is large, until `stop`.

    An automatic checkpoint syncs to disk inside the commit that triggers it, and the slowest commits then
    take tens of milliseconds instead of a few.
    """

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


_log = logging.getLogger(__name__)

#: SQL and its parameters.
type Statement = tuple[str, Sequence[Any]]

#: Seconds that a commit may wait for a truncating checkpoint, or an open file for another host that opens it.
_BUSY_TIMEOUT = 10.0
MOST_HOSTS = 64

_sql_of = itemgetter(0)


class DatabaseRefusedError(Exception):
    """The database cannot be used. The text names the cause and the fix in one line."""


@dataclass(frozen=True, slots=True)
class _Transaction:
    """Statements that wait for the next commit."""

    statements: Sequence[Statement]
    then: Callable[[], None]
    done: asyncio.Future[None]

    def succeed(self) -> None:
        """Continue after the commit."""
        self.then()
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        """Raise the error where the commit is awaited."""
        if not self.done.done():
            self.done.set_exception(error)


class Database:
    """An open database. This process owns its `place` until the database is closed or the process ends."""

    def __init__(self, path: Path, tables: str, version: int, *, places: int = 1) -> None:
        """Open the file, or create it with `tables` (SQL) as schema `version` (above 0).

        At most `places` processes have it open, and each has the lowest free place, from 0.

        Raises DatabaseRefusedError if no place is free or its schema is of another version, and
        sqlite3.DatabaseError if it is damaged.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        with ExitStack() as opened:
            self.place = self._take_place(places, opened)
            self._connection = opened.enter_context(
                closing(sqlite3.connect(path, autocommit=True, timeout=_BUSY_TIMEOUT))
            )
            with closing(self._lock("opening", _BUSY_TIMEOUT) or _refuse(path)):
                self._connection.execute("PRAGMA journal_mode=WAL")
                # Commits survive a killed process, not a power failure.
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.execute("PRAGMA wal_autocheckpoint=0")
                _prepare(self._connection, path, tables, version)
            opened.callback(CheckpointThread(path).stop)
            self._resources = opened.pop_all()
        self._group: list[_Transaction] = []

    def close(self) -> None:
        """Commit the pending writes, stop the checkpoints, and release the file for other processes."""
        self._flush()
        self._resources.close()

    def lock_of(self, place: int) -> sqlite3.Connection | None:
        """Lock a free place until the returned connection is closed; return None if the place is in use."""
        return self._lock(str(place))

    def _lock(self, name: str, timeout: float = 0.0) -> sqlite3.Connection | None:
        return try_lock(self._path.with_name(f"{self._path.name}.{name}.lock"), timeout)

    def _take_place(self, places: int, opened: ExitStack) -> int:
        for place in range(places):
            if (lock := self.lock_of(place)) is not None:
                opened.enter_context(closing(lock))
                return place
        return _refuse(self._path)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read committed rows."""
        return self._connection.execute(sql, parameters).fetchall()

    def commit(self, statements: Sequence[Statement], then: Callable[[], None]) -> asyncio.Future[None]:
        """Commit the statements together with all others of this iteration of the event loop.

        `then` runs directly after the commit, in the same callback, even if the returned future is no longer
        awaited. The future raises sqlite3.Error if the statements could not be committed.
        """
        loop = asyncio.get_running_loop()
        if not self._group:
            loop.call_soon(self._flush)
        done: asyncio.Future[None] = loop.create_future()
        self._group.append(_Transaction(statements, then, done))
        return done

    def _flush(self) -> None:
        group, self._group = self._group, []
        try:
            self._write([statement for transaction in group for statement in transaction.statements])
        except Exception:  # noqa: BLE001 - logged, and raised where it belongs
            _log.exception("A shared commit failed; committing its %d transactions one by one", len(group))
            for transaction in group:
                self._commit_alone(transaction)
        else:
            for transaction in group:
                transaction.succeed()

    def _commit_alone(self, transaction: _Transaction) -> None:
        try:
            self._write(transaction.statements)
        except Exception as error:  # noqa: BLE001 - raised where this transaction is awaited
            transaction.fail(error)
        else:
            transaction.succeed()

    def _write(self, statements: Sequence[Statement]) -> None:
        """Write all of the statements in their order, or none. Raises sqlite3.Error if none was written."""
        if not statements:
            return
        execute, execute_many = self._connection.execute, self._connection.executemany
        execute("BEGIN IMMEDIATE")
        try:
            for sql, group in groupby(statements, key=_sql_of):
                execute_many(sql, [parameters for _, parameters in group])
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk, for example, has ended it already
                execute("ROLLBACK")
            raise


def _refuse(path: Path) -> NoReturn:
    raise DatabaseRefusedError(f"{path} is in use by another process: is the host running already?")


def _prepare(connection: sqlite3.Connection, path: Path, tables: str, version: int) -> None:
    """Create the tables in a new file, and refuse a file of another version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == 0:
        connection.executescript(f"BEGIN; {tables} PRAGMA user_version={version}; COMMIT;")
    elif found != version:
        raise DatabaseRefusedError(
            f"{path} was written by another version (schema {found}, this one has {version}): "
            "delete it, or use another folder (--data)"
        )
