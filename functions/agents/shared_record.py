"""The row of one remote service that all instances share: its circuit, its limit, and their shares."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from functions.pattern.breaker import (
    BreakerRecord,
    counted_on,
    is_untouched,
    new_record,
    same_circuit,
    shared_on,
)
from functions.pattern.errors import TransientError
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import StoredBreaker

_log = logging.getLogger(__name__)

#: Seconds for which a call waits for a state store that does not answer.
_STORE_SECONDS = 1.0


class SharedRecord:
    """A service's record, written late if the store is down. Failures that open nothing stay local."""

    def __init__(self, service: str, ports: Ports) -> None:
        self._service = service
        self._rows = ports.breakers
        self._clock = ports.clock
        self._there = new_record(service, self._clock.now())
        self._version: str | None = None
        self._read_at: datetime | None = None
        self.store_is_down = False
        self._lock = asyncio.Lock()
        self.record = self._there

    @property
    def record(self) -> BreakerRecord:
        """The record as this process knows it; what other instances need not know is simply assigned."""
        return self._record

    @record.setter
    def record(self, record: BreakerRecord) -> None:
        self._record, self._made = record, object()

    async def publish(self, record: BreakerRecord) -> bool:
        """Write a record's circuit, or adopt another instance's; return whether it was kept."""
        self.record = record
        made = self._made
        async with self._lock:
            await self._write()
        return self._made is made

    async def change(self, change: Callable[[BreakerRecord], BreakerRecord]) -> BreakerRecord | None:
        """Write what `change` makes of the row's limits and shares; give it, or None if it may be unwritten.

        The circuit stays as it is on the row. `change` is pure: when another instance has written, it is
        called again, five times at most.
        """
        async with self._lock, self._asking_the_store():
            for _ in range(5):
                changed = change(self._there)
                if changed == self._there or await self._swap(changed):
                    return changed
        return None

    async def refresh(self, good_for: timedelta = timedelta(seconds=1)) -> None:
        """Learn what other instances have found out. Callers wait for each other the first time only."""
        if self._lock.locked() and self._read_at is not None:
            return
        async with self._lock:
            now = self._clock.now()
            if self._read_at is None or not timedelta(0) <= now - self._read_at < good_for:
                await self._read()
                await self._write()

    async def _read(self) -> None:
        async with self._asking_the_store():
            there = await self._rows.read(self._service)
            self.store_is_down = False
            if self._version != (None if there is None else there.version):
                self._adopt(there)
        self._read_at = self._clock.now()

    async def _write(self) -> None:
        async with self._asking_the_store():
            for _ in range(5):
                if same_circuit(self.record, self._there) or await self._swap(self.record):
                    return

    async def _swap(self, record: BreakerRecord) -> bool:
        swap = await self._rows.swap(record, self._version)
        self.store_is_down = False
        self._adopt(swap.there, is_ours=swap.won)
        return swap.won

    def _adopt(self, there: StoredBreaker | None, *, is_ours: bool = False) -> None:
        """Take over the row; what this process alone knows of a circuit stays while it is the same there."""
        before, was_there = self._there, self._version is not None
        if there is None:
            self._there, self._version = new_record(self._service, self._clock.now()), None
        else:
            self._there, self._version = there.record, there.version
        is_new = there is not None and not was_there and is_untouched(self._there)
        is_same = there is not None and same_circuit(before, self._there)
        if is_ours and same_circuit(self._record, self._there):
            self._record = counted_on(self._record, self._there)
        elif is_new or is_same:
            is_written = same_circuit(self._record, before)
            self._record = (counted_on if is_written else shared_on)(self._record, self._there)
        else:
            self.record = self._there

    @asynccontextmanager
    async def _asking_the_store(self) -> AsyncIterator[None]:
        """Bound the time that the block takes; a store that fails or does not answer raises nothing."""
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                yield
        except (TransientError, TimeoutError) as fault:
            if not self.store_is_down:
                reason = str(fault) or "no answer"
                _log.warning("circuit of %s: not shared, the state store fails (%s)", self._service, reason)
            self.store_is_down = True


class Watch:
    """Watches one value by the time of this process alone, so that no wrong clock matters."""

    def __init__(self) -> None:
        self._value: object = None
        self._since = 0.0

    def seen_for(self, value: object) -> timedelta:
        """Tell for how long at least it has been this value."""
        now = asyncio.get_running_loop().time()
        if value != self._value:
            self._value, self._since = value, now
        return timedelta(seconds=now - self._since)
