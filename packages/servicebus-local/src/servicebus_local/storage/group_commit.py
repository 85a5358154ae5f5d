"""One transaction for all writes of one iteration of the event loop, and then the answers to all of them.

A commit costs more than its writes. So writes are collected; the first write of an iteration schedules the
commit for the next iteration, after the writes of all requests that arrived at the same moment. If a commit
fails, memory and log differ: the broker sends no more answers and must stop.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import Any

from servicebus_local.storage.log import MessageLog, SqlWrite
from servicebus_local.storage.schema import Statement

_log = logging.getLogger(__name__)

type Parameter = str | int | bytes | None


class GroupCommit:
    """Collects writes, and the callbacks that run after their commit."""

    def __init__(
        self, log: MessageLog, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], object]
    ) -> None:
        self._log = log
        self._loop = loop
        self._on_failure = on_failure
        self._writes: list[SqlWrite] = []
        self._callbacks: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._scheduled = False
        self._closed = False

    def write(self, statement: Statement, *parameters: Parameter) -> None:
        """Add a write to the next commit."""
        self._writes.append((statement.value, parameters))
        self._schedule()

    def then(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback after the commit of all earlier writes."""
        self._callbacks.append((callback, arguments))
        self._schedule()

    def flush(self) -> None:
        """Commit now, and run the callbacks; their own writes wait for the next commit."""
        self._scheduled = False
        if self._closed:
            return
        writes, self._writes = self._writes, []
        callbacks, self._callbacks = self._callbacks, []
        if writes and not self._commit(writes):
            return
        for callback, arguments in callbacks:
            try:
                callback(*arguments)
            except Exception:  # noqa: BLE001 - one failed answer must not prevent the others
                _log.exception("An answer could not be sent")

    def close(self) -> None:
        """Commit the pending writes; later writes are neither written nor answered."""
        while not self._closed and (self._writes or self._callbacks):
            self.flush()
        self._closed = True

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def _commit(self, writes: list[SqlWrite]) -> bool:
        try:
            self._log.commit(writes)
        except (sqlite3.Error, OverflowError):  # the latter for a number that SQLite can't hold
            _log.critical(
                "The log could not be written. The broker stops and acknowledges nothing.", exc_info=True
            )
            self._closed = True
            self._on_failure()
            return False
        return True
