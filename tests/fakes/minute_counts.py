"""Counts of tasks in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime

from functions.pattern.errors import TransientError
from functions.pattern.occurrences import TaskCounter


class MemoryMinuteCounts:
    """Keeps rows by minute and name; fails while there is a `failure`."""

    def __init__(self) -> None:
        self.rows: dict[tuple[datetime, str], dict[TaskCounter, int]] = {}
        self.failure: Exception | None = None
        self.reads = 0

    async def write(self, minute: datetime, row: str, counts: Mapping[TaskCounter, int]) -> None:
        """Write a row."""
        self._fail()
        self.rows[minute, row] = dict(counts)

    async def since(self, minute: datetime) -> Mapping[datetime, Mapping[TaskCounter, int]]:
        """Return the sums by minute."""
        self._fail()
        self.reads += 1
        sums: defaultdict[datetime, Counter[TaskCounter]] = defaultdict(Counter)
        for (at, _), counts in self.rows.items():
            if at >= minute:
                sums[at].update(counts)
        return sums

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete rows of earlier minutes."""
        self._fail()
        old = [key for key in self.rows if key[0] < before][:most]
        for key in old:
            del self.rows[key]
        return len(old)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


NO_STORE = TransientError("Table Storage: ServiceRequestError")
