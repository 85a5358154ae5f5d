"""The deletion of old rows: rejected messages, counts of minutes, and requests of Agents. Times are UTC."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from functions.storage.table_contract import StorageError

_log = logging.getLogger(__name__)

#: Deletes at most a number of rows that were written before a time (UTC), and returns their number.
type DeleteBefore = Callable[[datetime, int], Awaitable[int]]


async def delete_old_rows(
    kinds: Mapping[str, tuple[timedelta, DeleteBefore]], now: Callable[[], datetime]
) -> None:
    """Delete the rows of each kind that are older than its retention within four minutes; log one line.

    It raises nothing: the next run continues.
    """
    figures: dict[str, int] = {}
    for kind, (retention, delete) in kinds.items():
        try:
            async with asyncio.timeout(240 / len(kinds)):
                while number := await delete(now() - retention, 5_000):
                    figures[kind] = figures.get(kind, 0) + number
        except (StorageError, TimeoutError) as error:
            _log.warning("old rows of %s are not deleted: %s", kind, error)
    _log.info("old rows %s", json.dumps(figures))
