"""The deletion of old rows: rejected messages, counts of minutes, and requests of Agents. Times are UTC."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import batched

from functions.storage.index_pages import KEYS, read_entries
from functions.storage.table_contract import (
    MOST_OPERATIONS,
    RefusedChanges,
    RowChange,
    RowQuery,
    StorageError,
    Table,
)

_log = logging.getLogger(__name__)

#: Seconds of one deletion of old rows, and rows that are deleted before the time is looked at again.
_DELETION_SECONDS, _DELETED_PAGE = 240, 5_000

#: Deletes at most a number of rows that were written before a time (UTC), and returns their number.
type DeleteBefore = Callable[[datetime, int], Awaitable[int]]


async def delete_old_rows(
    kinds: Mapping[str, tuple[timedelta, DeleteBefore]], now: Callable[[], datetime]
) -> None:
    """Delete the rows of each kind that are older than its retention, and log one line.

    It raises nothing, as the next run continues.
    """
    figures: dict[str, int] = {}
    for kind, (retention, delete) in kinds.items():
        try:
            async with asyncio.timeout(_DELETION_SECONDS / len(kinds)):
                while number := await delete(now() - retention, _DELETED_PAGE):
                    figures[kind] = figures.get(kind, 0) + number
        except (StorageError, TimeoutError) as error:
            _log.warning("old rows of %s are not deleted: %s", kind, error)
    _log.info("old rows %s", json.dumps(figures))


async def delete_timed_rows(
    table: Table, partitions: Iterable[str], prefix: str, before: datetime, most: int
) -> int:
    """Delete at most `most` rows whose keys are a prefix and a time before `before`; return their number.

    With a prefix, each key also names the row that it is about, which is deleted with it.
    """
    deleted = 0
    for partition in partitions:
        query = RowQuery(
            prefix, f"{prefix}{before:%Y%m%dT%H%M}", columns=KEYS, most=min(most - deleted, 1000)
        )
        page = await read_entries(table, partition, query, lambda row: str(row["RowKey"]))
        for some in batched(page.entries, MOST_OPERATIONS // 2, strict=False):
            others = (key.partition("|")[2] for key in some if prefix)
            changes = [RowChange("delete", key) for key in (*some, *others)]
            if isinstance(await table.send(partition, changes), RefusedChanges):
                break  # another instance deletes them at this moment
            deleted += len(some)
        if deleted == most:
            break
    return deleted
