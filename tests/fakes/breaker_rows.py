"""The rows that breakers share, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from functions.pattern.breaker import BreakerRecord
from functions.pattern.shared_rows import StoredBreaker, Swap


class MemoryBreakerRows:
    """Rows with a real compare-and-swap. They raise a `failure`, and never respond when `silent`."""

    def __init__(self) -> None:
        self.there: dict[str, StoredBreaker] = {}
        self.reads = 0
        self.written: list[BreakerRecord] = []
        self.failure: Exception | None = None
        self.silent = False

    async def read(self, service: str) -> StoredBreaker | None:
        """Read a row; another caller may change it during the read."""
        self.reads += 1
        await self._travel()
        return self.there.get(service)

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Write a row if it has not changed since it was read."""
        await self._travel()
        there = self.there.get(record.service)
        if version != (None if there is None else there.version):
            return Swap(won=False, there=there)
        self.written.append(record)
        stored = self.there[record.service] = StoredBreaker(record, str(int(version or 0) + 1))
        return Swap(won=True, there=stored)

    async def every(self) -> Sequence[BreakerRecord]:
        """Read all rows."""
        await self._travel()
        return [stored.record for stored in self.there.values()]

    async def _travel(self) -> None:
        await asyncio.sleep(0)
        if self.silent:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
