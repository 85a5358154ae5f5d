"""The simulated table for many rows: a query costs no look at each row."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence

from functions.storage.table_contract import RefusedChanges, RowChange, RowPage, RowQuery
from tests.fakes.simulated_table import SimulatedTable


class IndexedTable(SimulatedTable):
    """A table whose rows are changed by transactions only."""

    def __init__(self, *, seconds: float = 0) -> None:
        super().__init__(seconds=seconds)
        self._keys = defaultdict[str, list[str]](list)

    def write(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none, and keep the order of the keys."""
        existing = {change.key for change in changes if (partition, change.key) in self.rows}
        answer = super().write(partition, changes)
        if isinstance(answer, RefusedChanges):
            return answer
        keys = self._keys[partition]
        for change in changes:
            if change.kind == "delete":
                del keys[bisect_left(keys, change.key)]
            elif change.key not in existing:
                insort(keys, change.key)
        return answer

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page."""
        await self._start_read()
        keys = self._keys[partition]
        first = bisect_left(keys, max(query.first, query.continuation or "", query.beyond or ""))
        if query.beyond is not None and first < len(keys) and keys[first] == query.beyond:
            first += 1
        last = min(bisect_left(keys, query.end), first + query.most + 1)
        return self._page_of(partition, keys[first:last], query)
