"""One transaction for all that was written in one turn of the event loop, and then the answers to all of it.

A commit costs more than what is in it. So operations are only collected; the first of a turn asks the loop to
commit in the next one, when everything that arrived at the same moment is there too. If a commit fails,
memory and log differ: nothing is answered any more and the broker must stop.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import Any

from servicebus_local.sqlite_log import SqliteLog
from servicebus_local.sqlite_log import Statement as LogStatement

from .schema import Statement

_log = logging.getLogger(__name__)

type Parameter = str | int | bytes | None


class GroupCommit:
    """Collects statements and what is to happen when they are committed."""

    def __init__(
        self, log: SqliteLog, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], object]
    ) -> None:
        self._log = log
        self._loop = loop
        self._on_failure = on_failure
        self._statements: list[LogStatement] = []
        self._callbacks: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._scheduled = False
        self._closed = False

    def write(self, statement: Statement, *parameters: Parameter) -> None:
        """Add a statement to the next commit."""
        self._statements.append((statement.value, parameters))
        self._schedule()

    def then(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call something once all that was written before is committed."""
        self._callbacks.append((callback, arguments))
        self._schedule()

    def flush(self) -> None:
        """Commit now, and run the callbacks; what they write in turn waits for the next commit."""
        self._scheduled = False
        if self._closed:
            return
        statements, self._statements = self._statements, []
        callbacks, self._callbacks = self._callbacks, []
        if statements and not self._commit(statements):
            return
        for callback, arguments in callbacks:
            callback(*arguments)

    def close(self) -> None:
        """Commit what is left; what comes later is neither written nor answered."""
        self.flush()
        self._closed = True

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def _commit(self, statements: list[LogStatement]) -> bool:
        try:
            self._log.commit(statements)
        except sqlite3.Error:
            _log.critical(
                "The log could not be written. The broker stops and acknowledges nothing.", exc_info=True
            )
            self._closed = True
            self._on_failure()
            return False
        return True
