"""The engine's SQLite file: one connection, one owner, and commits shared by all that ask in one loop turn.

A committed transaction is what costs, so whatever finishes in the same turn of the event loop is committed
together, in the order it was handed in. SQLite's own checkpoint would hold up the committing thread; a
thread with a connection of its own does it instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.host.durable.options import Synchronous

logger = logging.getLogger(__name__)

type Statement = tuple[str, Sequence[Any]]

#: Seconds between two looks at the size of the write-ahead log.
_CHECKPOINT_INTERVAL = 2.0
#: Bytes of write-ahead log from which on it is copied back, without disturbing anybody.
_CHECKPOINT_SIZE = 8 << 20
#: Bytes of write-ahead log from which on it is also cut, for which a writer may have to wait.
_TRUNCATE_SIZE = 64 << 20


class DatabaseRefusedError(Exception):
    """The database can't be used. The text says why and what to do."""


@dataclass(frozen=True, slots=True)
class _Transaction:
    """Statements that wait for the next commit."""

    statements: Sequence[Statement]
    then: Callable[[], None]
    done: asyncio.Future[None]

    def succeed(self) -> None:
        """Go on after the commit."""
        self.then()
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        """Tell whoever waits why nothing was committed."""
        if not self.done.done():
            self.done.set_exception(error)


class Database:
    """An open database. It belongs to this process until it is closed."""

    def __init__(self, path: Path, synchronous: Synchronous, schema: str, schema_version: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        with contextlib.ExitStack() as opened:
            self._lock = opened.enter_context(contextlib.closing(_take_lock(path)))
            self._connection = opened.enter_context(
                contextlib.closing(sqlite3.connect(path, autocommit=True))
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(f"PRAGMA synchronous={synchronous.value}")
            self._connection.execute("PRAGMA wal_autocheckpoint=0")
            _prepare(self._connection, path, schema, schema_version)
            opened.pop_all()
        self._group: list[_Transaction] = []
        self._checkpoints = asyncio.create_task(self._keep_log_small(), name="durable-checkpoint")

    async def close(self) -> None:
        """Commit what waits, close the file and let others have it."""
        self._checkpoints.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._checkpoints
        self._flush()
        self._connection.close()
        self._lock.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read rows. Only committed ones are ever seen."""
        return self._connection.execute(sql, parameters).fetchall()

    def commit(self, statements: Sequence[Statement], then: Callable[[], None]) -> asyncio.Future[None]:
        """Commit the statements together, with whatever else is handed in during this turn of the loop.

        `then` runs directly after the commit, before anything else can happen, whether or not the returned
        future is still awaited. The future raises sqlite3.Error if the statements could not be committed.
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
            self._execute([statement for transaction in group for statement in transaction.statements])
        except Exception:
            logger.exception("A shared commit failed; each of its %d transactions is tried alone", len(group))
            for transaction in group:
                self._commit_alone(transaction)
        else:
            for transaction in group:
                transaction.succeed()

    def _commit_alone(self, transaction: _Transaction) -> None:
        try:
            self._execute(transaction.statements)
        except Exception as error:  # noqa: BLE001 - whoever waits for this transaction gets the error
            transaction.fail(error)
        else:
            transaction.succeed()

    def _execute(self, statements: Sequence[Statement]) -> None:
        if not statements:
            return
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            for sql, parameters in statements:
                execute(sql, parameters)
            execute("COMMIT")
        except BaseException:
            execute("ROLLBACK")
            raise

    async def _keep_log_small(self) -> None:
        while True:
            await asyncio.sleep(_CHECKPOINT_INTERVAL)
            await asyncio.to_thread(_checkpoint, self._path)


def _checkpoint(path: Path) -> None:
    log = Path(f"{path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > _CHECKPOINT_SIZE:
        mode = "TRUNCATE" if size > _TRUNCATE_SIZE else "PASSIVE"
        with contextlib.closing(sqlite3.connect(path, autocommit=True)) as connection:
            connection.execute(f"PRAGMA wal_checkpoint({mode})")


def _prepare(connection: sqlite3.Connection, path: Path, schema: str, version: int) -> None:
    """Make the tables in a new file, and refuse a file of another version."""
    ((found,),) = connection.execute("PRAGMA user_version").fetchall()
    if found == 0:
        connection.executescript(f"BEGIN; {schema} PRAGMA user_version={version}; COMMIT;")
    elif found != version:
        raise DatabaseRefusedError(
            f"{path} was written by another version (schema {found}, this one has {version}): delete it, "
            "or point the host at another folder"
        )


def _take_lock(path: Path) -> sqlite3.Connection:
    """Claim the database for this process; such a lock ends with the process, however that dies."""
    lock = sqlite3.connect(f"{path}.lock", timeout=0, autocommit=True)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        raise DatabaseRefusedError(
            f"{path} is in use by another process: is the host running already?"
        ) from error
    return lock
