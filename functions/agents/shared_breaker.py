"""What one process knows of a circuit: its own view, kept close to the row that all instances share.

A call costs no extra request: the row is read at most once a second. While the state store is unavailable,
the process goes on with what it knows, and writes the row once the store is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from functions.pattern.breaker import BreakerRecord, new_record
from functions.pattern.errors import TransientError
from functions.pattern.ports import Ports
from functions.pattern.store_ports import StoredBreaker

_log = logging.getLogger(__name__)

#: How long a row that was read counts as current.
_GOOD_FOR = timedelta(seconds=1)

#: Seconds for which a call waits for a state store that does not answer.
_STORE_SECONDS = 1.0


class SharedRecord:
    """A breaker's record. Failures that open nothing are counted in this process only."""

    def __init__(self, service: str, ports: Ports) -> None:
        self._service = service
        self._rows = ports.breakers
        self._clock = ports.clock
        #: The record as this process knows it; what other instances need not know is simply assigned.
        self.record = self._there = new_record(service, self._clock.now())
        self._version: str | None = None
        self._read_at: datetime | None = None
        self._store_is_down = False
        self._lock = asyncio.Lock()

    async def publish(self, record: BreakerRecord) -> None:
        """Keep a record and write it, or adopt the row that another instance has written meanwhile."""
        self.record = record
        async with self._lock:
            await self._write()

    async def refresh(self) -> None:
        """Learn what other instances have found out. Callers wait for each other the first time only."""
        if self._lock.locked() and self._read_at is not None:
            return
        async with self._lock:
            if not self._is_fresh():
                await self._read()
                await self._write()

    def _is_fresh(self) -> bool:
        if self._read_at is None:
            return False
        return timedelta(0) <= self._clock.now() - self._read_at < _GOOD_FOR

    async def _read(self) -> None:
        async with self._asking_the_store():
            there = await self._rows.read(self._service)
            if self._version != (None if there is None else there.version):
                self._note(there)
                self.record = self._there
        self._read_at = self._clock.now()

    async def _write(self) -> None:
        """Write what the row does not say yet; failures that are merely counted are not written."""
        record = self.record
        if (record.state, record.probe_at) == (self._there.state, self._there.probe_at):
            return
        async with self._asking_the_store():
            swap = await self._rows.swap(record, self._version)
            self._note(swap.there)
            if not swap.won:
                self.record = self._there

    def _note(self, there: StoredBreaker | None) -> None:
        if there is None:
            self._there, self._version = new_record(self._service, self._clock.now()), None
        else:
            self._there, self._version = there.record, there.version

    @asynccontextmanager
    async def _asking_the_store(self) -> AsyncIterator[None]:
        """Bound the time that the block takes; a store that fails or does not answer raises nothing."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                yield
        except (TransientError, TimeoutError) as fault:
            if not self._store_is_down:
                reason = str(fault) or "no answer"
                _log.warning("circuit of %s: not shared, the state store fails (%s)", self._service, reason)
            self._store_is_down = True
        else:
            self._store_is_down = False
