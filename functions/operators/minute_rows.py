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


async def write_minute(table: Table, minute: datetime, row: str, counts: Mapping[TaskCounter, int]) -> None:
    """Write the `row` of a process for a minute; a repeated write replaces it. Raises `StorageError`."""
    columns = {counter.title(): count for counter, count in counts.items()}
    change = RowChange("upsert", f"{minute:{_MINUTE}}|{row}", columns)
    await write(table, MINUTES_PARTITION, [change])


async def minutes_since(table: Table, minute: datetime) -> Mapping[datetime, Mapping[TaskCounter, int]]:
    """Return the sums of all processes by minute from `minute` on. A corrupt row is logged and left out.

    Raises `TransientStorageError`.
    """
    sums: defaultdict[datetime, Counter[TaskCounter]] = defaultdict(Counter)
    query = RowQuery(f"{minute:{_MINUTE}}", "~")  # after all minutes
    page = await read_entries(table, MINUTES_PARTITION, query, _counts, is_whole=True)
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
