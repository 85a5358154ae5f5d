"""The engine's log, with commits shared by all that ask in one turn of the event loop.

A committed transaction is what costs, so whatever finishes in the same turn is committed together, in the
order it was handed in. One bad transaction harms no other: they are then committed one by one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions_local.sqlite_log import Schema, SqliteLog, Statement, Synchronous

logger = logging.getLogger(__name__)


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

    def __init__(self, path: Path, synchronous: Synchronous, tables: str, version: int) -> None:
        """Open it, or make it. Raises LogRefusedError."""
        schema = Schema(
            tables,
            version,
            subject=str(path),
            other_owner="another process: is the host running already?",
            remedy="delete it, or point the host at another folder",
        )
        self._log = SqliteLog(path, schema, synchronous)
        self._group: list[_Transaction] = []

    def close(self) -> None:
        """Commit what waits, close the file and let others have it."""
        self._flush()
        self._log.close()

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read rows. Only committed ones are ever seen."""
        return self._log.query(sql, parameters).fetchall()

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
            self._write([statement for transaction in group for statement in transaction.statements])
        except Exception:
            logger.exception("A shared commit failed; each of its %d transactions is tried alone", len(group))
            for transaction in group:
                self._commit_alone(transaction)
        else:
            for transaction in group:
                transaction.succeed()

    def _commit_alone(self, transaction: _Transaction) -> None:
        try:
            self._write(transaction.statements)
        except Exception as error:  # noqa: BLE001 - whoever waits for this transaction gets the error
            transaction.fail(error)
        else:
            transaction.succeed()

    def _write(self, statements: Sequence[Statement]) -> None:
        if statements:
            self._log.commit(statements)
