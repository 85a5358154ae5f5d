"""Counts of tasks in the table `Tasks`: a row for each minute and process. Times are UTC."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from functions.storage.index_pages import KEYS, read_entries
from functions.storage.record_rows import decoded
from functions.storage.table_contract import Row, RowChange, RowQuery, Table, delete_rows, write
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


async def delete_before(table: Table, before: datetime, most: int) -> int:
    """Delete at most `most` rows of minutes before a time; return their number. Raises `StorageError`."""
    query = RowQuery("", f"{before:{_MINUTE}}", columns=KEYS, most=min(most, 1000))
    page = await read_entries(table, MINUTES_PARTITION, query, lambda row: [str(row["RowKey"])])
    return await delete_rows(table, MINUTES_PARTITION, page.entries)


class MinuteCounts(BaseModel):
    """The counts of tasks in the minute that began at `at`."""

    at: datetime
    accepted: int
    processed: int
    compensated: int
    error: int
    recovered: int


async def last_hour(table: Table, now: datetime) -> list[MinuteCounts]:
    """Return the 60 complete minutes before `now`, each with the sums of all processes.

    A corrupt row is logged and left out. Raises `TransientStorageError`.
    """
    first = now.replace(second=0, microsecond=0) - timedelta(hours=1)
    sums: defaultdict[datetime, Counter[str]] = defaultdict(Counter)
    query = RowQuery(f"{first:{_MINUTE}}", "~")  # after all minutes
    page = await read_entries(table, MINUTES_PARTITION, query, _counts, is_whole=True)
    for error in page.corrupt:
        _log.warning("counts of tasks: %s", error)
    for at, counts in page.entries:
        sums[at].update(counts)
    minutes = (first + timedelta(minutes=number) for number in range(60))
    return [MinuteCounts(at=at, **{each: sums[at][each] for each in TaskCounter}) for at in minutes]


def _counts(row: Row) -> tuple[datetime, Mapping[str, int]]:
    key = str(row["RowKey"])

    def decode() -> tuple[datetime, Mapping[str, int]]:
        at = datetime.strptime(key.partition("|")[0], _MINUTE).replace(tzinfo=UTC)
        return at, {counter: int(row.get(counter.title(), 0)) for counter in TaskCounter}

    return decoded(key, decode)
