"""Reads rows of the log on a thread, concurrently with the commits and answers of the event loop."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

type Rows = list[tuple[Any, ...]]


class LogReader:
    """One thread with its own connection; one read after the other."""

    def __init__(self, database: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._database = database
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "older events")
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    def read(
        self, sql: str, parameters: Sequence[Any], max_bytes: int, then: Callable[[Rows], object]
    ) -> None:
        """Read committed rows, whose last column is a blob, and call back on the event loop.

        The read stops when the blobs together have the given size. An error is logged, and the callback gets
        no rows.
        """

        def done(reading: asyncio.Future[Rows]) -> None:
            if self._closed or reading.cancelled():
                return
            if error := reading.exception():
                _log.error("%s could not be read", self._database, exc_info=error)
            then([] if error else reading.result())

        reading = self._loop.run_in_executor(self._thread, self._rows, sql, parameters, max_bytes)
        reading.add_done_callback(done)

    def close(self) -> None:
        """Drop the pending reads, and close the connection."""
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._connection is not None:
            self._connection.close()

    def _rows(self, sql: str, parameters: Sequence[Any], max_bytes: int) -> Rows:
        if self._connection is None:
            # Another thread closes the connection, but never while this thread uses it.
            self._connection = sqlite3.connect(self._database, autocommit=True, check_same_thread=False)
            self._connection.execute("PRAGMA query_only=ON")
        rows: Rows = []
        for row in self._connection.execute(sql, parameters):
            rows.append(row)
            max_bytes -= len(row[-1])
            if max_bytes <= 0:
                break
        return rows
