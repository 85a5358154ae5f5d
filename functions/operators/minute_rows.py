"""Counts of tasks in the table `Tasks`: a row for each minute and process. Times are UTC."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

from functions.storage.index_pages import read_entries
from functions.storage.record_rows import decoded
from functions.storage.table_contract import Row, RowChange, RowQuery, Table, write
from functions.telemetry.task_counts import TaskCounter

_log = logging.getLogger(__name__)

MINUTES_PARTITION = "!minutes"
#: Keys begin with the minute.
_MINUTE = "%Y%m%dT%H%M"
#: After all minutes.
_END = "~"


class MinuteRows:
    """The counts of all processes. Its methods raise `StorageError`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def write(self, minute: datetime, row: str, counts: Mapping[TaskCounter, int]) -> None:
        """Write the `row` of a process for a minute; a repeated write replaces it."""
        columns = {counter.title(): count for counter, count in counts.items()}
        key = f"{minute:{_MINUTE}}|{row}"
        await write(self._table, MINUTES_PARTITION, [RowChange("upsert", key, columns)])

    async def since(self, minute: datetime) -> Mapping[datetime, Mapping[TaskCounter, int]]:
        """Return the sums by minute from `minute` on. A corrupt row is logged and left out."""
        sums: defaultdict[datetime, Counter[TaskCounter]] = defaultdict(Counter)
        query = RowQuery(f"{minute:{_MINUTE}}", _END)
        page = await read_entries(self._table, MINUTES_PARTITION, query, _counts, is_whole=True)
        for error in page.corrupt:
            _log.warning("counts of tasks: %s", error)
        for at, counts in page.entries:
            sums[at].update(counts)
        return sums


def _counts(row: Row) -> tuple[datetime, Mapping[TaskCounter, int]]:
    key = str(row["RowKey"])

    def decode() -> tuple[datetime, Mapping[TaskCounter, int]]:
        at = datetime.strptime(key.partition("|")[0], _MINUTE).replace(tzinfo=UTC)
        return at, {counter: int(row.get(counter.title(), 0)) for counter in TaskCounter}

    return decoded(key, decode)
