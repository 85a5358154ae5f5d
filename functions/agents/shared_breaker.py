"""What one process knows of a breaker: its own view, kept close to the row that all instances share.

A call costs no request of its own: the row is read at most once a second. When the state store is away,
the process goes on with what it knows, and tells the others once the store is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from functions.pattern.breaker import BreakerRecord, new_record
from functions.pattern.errors import TransientError
from functions.pattern.ports import Clock
from functions.pattern.store_ports import BreakerRows, StoredBreaker

_log = logging.getLogger(__name__)

#: How long a row that was read is good enough.
_GOOD_FOR = timedelta(seconds=1)

#: Seconds that a call may lose to a state store that does not answer.
_STORE_SECONDS = 1.0


class SharedRecord:
    """A breaker's record, of which failures that open nothing are this process's own matter."""

    def __init__(self, service: str, *, rows: BreakerRows, clock: Clock) -> None:
        self._service = service
        self._rows = rows
        self._clock = clock
        self._mine = self._there = new_record(service, clock.now())
        self._version: str | None = None
        self._read_at: datetime | None = None
        self._store_is_away = False
        self._lock = asyncio.Lock()

    @property
    def record(self) -> BreakerRecord:
        """The record as this process knows it."""
        return self._mine

    def remember(self, record: BreakerRecord) -> None:
        """Take a record over which is nobody else's concern."""
        self._mine = record

    async def publish(self, record: BreakerRecord) -> None:
        """Take a record over and tell the others, or learn what another instance has made of the row."""
        self._mine = record
        async with self._lock:
            await self._write()

    async def refresh(self) -> None:
        """Learn what other instances have found out. Only the first time do callers wait for each other."""
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
                self._mine = self._there
        self._read_at = self._clock.now()

    async def _write(self) -> None:
        """Write what the row does not tell yet; failures that are merely counted are not told."""
        mine = self._mine
        if (mine.state, mine.probe_at) == (self._there.state, self._there.probe_at):
            return
        async with self._asking_the_store():
            swap = await self._rows.swap(mine, self._version)
            self._note(swap.there)
            if not swap.won:
                self._mine = self._there

    def _note(self, there: StoredBreaker | None) -> None:
        if there is None:
            self._there, self._version = new_record(self._service, self._clock.now()), None
        else:
            self._there, self._version = there.record, there.version

    @asynccontextmanager
    async def _asking_the_store(self) -> AsyncIterator[None]:
        """Bound the time that the block takes, and survive that the store fails or is silent."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                yield
        except (TransientError, TimeoutError) as fault:
            if not self._store_is_away:
                reason = str(fault) or "no answer"
                _log.warning("breaker of %s: alone with what it knows (%s)", self._service, reason)
            self._store_is_away = True
        else:
            self._store_is_away = False
