"""Counts of tasks: a row for each minute and process, in a partition of their own."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.occurrences import TaskCounter
from functions.pattern.request_figures import StoreFigures
from functions.store.connect import table_faults
from functions.store.entities import readable
from functions.store.pages import every_row
from functions.store.retention import delete_old_rows

_log = logging.getLogger(__name__)

_PARTITION = "!minutes"
_TIME = "%Y%m%dT%H%M"
#: Sorts after all times.
_END = "~"


class TableMinuteCounts:
    """Counts of tasks in the table of tasks. Its methods raise `TransientError`."""

    def __init__(self, table: TableClient, figures: StoreFigures) -> None:
        self._table = table
        self._figures = figures

    async def write(self, minute: datetime, row: str, counts: Mapping[TaskCounter, int]) -> None:
        """Write a process's `row` of a minute; a repeated write replaces it."""
        self._figures.operations += 1
        keys = {"PartitionKey": _PARTITION, "RowKey": f"{_time(minute)}|{row}"}
        columns = {_column(counter): count for counter, count in counts.items()}
        with table_faults():
            await self._table.upsert_entity({**keys, **columns}, mode=UpdateMode.REPLACE)

    async def since(self, minute: datetime) -> Mapping[datetime, Mapping[TaskCounter, int]]:
        """Return the sums over all processes, by minute; a corrupt row is logged and left out."""
        keys = {"partition": _PARTITION, "first": _time(minute), "end": _END}
        rows = [row async for row in every_row(self._table, self._figures, keys)]
        found, corrupt = readable(_decoded, rows)
        for each in corrupt:
            _log.warning("counts of tasks: %s", each)
        sums: defaultdict[datetime, Counter[TaskCounter]] = defaultdict(Counter)
        for at, counts in found:
            sums[at].update(counts)
        return sums

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete at most `most` rows of earlier minutes; return the number of deleted rows."""
        query = "PartitionKey eq @partition and RowKey lt @before"
        return await delete_old_rows(self._table, query, _time(before), most, partition=_PARTITION)


def _time(minute: datetime) -> str:
    return minute.strftime(_TIME)


def _column(counter: TaskCounter) -> str:
    return counter.title()


def _decoded(row: Mapping[str, Any]) -> tuple[datetime, dict[TaskCounter, int]]:
    at = datetime.strptime(row["RowKey"].partition("|")[0], _TIME).replace(tzinfo=UTC)
    return at, {counter: int(row.get(_column(counter), 0)) for counter in TaskCounter}
