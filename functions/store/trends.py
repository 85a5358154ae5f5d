"""The table of trends: a partition for each workflow, in which rows lie by time."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self, cast

from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableEntity
from azure.data.tables.aio import TableClient

from functions.pattern.errors import TransientError
from functions.pattern.request_figures import StoreFigures
from functions.pattern.trends import Period, StoredTrend, Trend, TrendKey
from functions.store.connect import TableStorage, table_faults
from functions.store.entities import readable
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, Operation
from functions.store.pages import Page, first_rows, read_page
from functions.store.retention import delete_old_rows
from functions.store.transactions import MOST_OPERATIONS

TRENDS_TABLE = "Trends"

_log = logging.getLogger(__name__)

_TIME = "%Y%m%dT%H%M"
_SINCE = "RowKey ge @first"
#: Requests that one reading may take; a month of five workflows takes one or two.
_MOST_REQUESTS = 50


class TableTrends:
    """Rows of trends, as new ones or added up. Its methods raise `TransientError`."""

    def __init__(self, table: TableClient, groups: EntityGroups, *, figures: StoreFigures) -> None:
        self._table = table
        self._groups = groups
        self._figures = figures

    @classmethod
    def of(cls, storage: TableStorage, figures: StoreFigures) -> Self:
        """Keep them in their own table."""
        return cls(storage.table(TRENDS_TABLE), storage.groups(TRENDS_TABLE), figures=figures)

    async def insert(self, key: TrendKey, trend: Trend) -> None:
        """Write a new row; one that is there already is our own, whose answer was lost."""
        self._figures.operations += 1
        with table_faults():
            try:
                await self._table.create_entity({"PartitionKey": key.workflow, **_row(key, trend)})
            except ResourceExistsError:
                return

    async def since(self, at: datetime) -> Sequence[StoredTrend]:
        """Read the rows of all workflows since a time; what can't be read is logged, and left out."""
        rows, damaged = readable(_stored, await self._every({"first": _time(at)}))
        for each in damaged:
            _log.warning("%s: %s", TRENDS_TABLE, each)
        return rows

    async def keys(self, most: int) -> Sequence[TrendKey]:
        """Read which rows there are, up to `most`."""
        return readable(_key, (await self._every({"first": ""}, ["PartitionKey", "RowKey"]))[:most])[0]

    async def _every(self, keys: dict[str, Any], select: list[str] | None = None) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        after: str | None = None
        for _ in range(_MOST_REQUESTS):
            page = await read_page(self._table, self._figures, _SINCE, keys, after=after, select=select)
            found += page.rows
            after = page.continuation
            if after is None:
                break
        return found

    async def condense(self, into: TrendKey, period: Period) -> bool:
        """Add up as many rows of a period as a transaction takes; tell whether some are left.

        Another that does the same at this moment has taken a row away: then nothing is done here.
        """
        first, end = _time(into.at), _time(into.at + period.length)
        keys = {"partition": into.workflow, "first": first, "end": end}
        page = await first_rows(self._table, self._figures, keys, MOST_OPERATIONS - 1)
        operations = _sum(into, page)
        if len(operations) == 1:
            return False
        self._figures.transactions += 1
        self._figures.operations += len(operations)
        with table_faults():
            answer = await self._groups.send(into.workflow, operations)
        if isinstance(answer, GroupRefused) and not answer.conflict:
            raise TransientError(f"{TRENDS_TABLE}: {answer.code}")
        return page.continuation is not None and not isinstance(answer, GroupRefused)

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` rows of times before that one; give how many."""
        return await delete_old_rows(self._table, "RowKey lt @before", _time(before), most)


def _sum(into: TrendKey, page: Page) -> list[Operation]:
    """Make the transaction that puts one row in the place of those of a page that can be read.

    A sum that can't be read is replaced, too: nothing else would ever be added up there.
    """
    total, etags = Trend(), {}
    for row in page.rows:
        found, damaged = readable(_stored, [row])
        for each in found:
            total.add(each.trend)
        if found or row["RowKey"] == _row_key(into):
            etags[row["RowKey"]] = str(cast("TableEntity", row).metadata["etag"])
        if damaged and row["RowKey"] in etags:
            _log.warning("%s: %s; this sum is begun again", TRENDS_TABLE, damaged[0])
    row, there = _row(into, total), etags.pop(_row_key(into), None)
    written = Operation("create", row) if there is None else Operation("update", row, there)
    return [written, *(Operation("delete", {"RowKey": key}, etag) for key, etag in etags.items())]


def _time(at: datetime) -> str:
    return at.strftime(_TIME)


def _row_key(key: TrendKey) -> str:
    return f"{_time(key.at)}|{key.id}"


def _row(key: TrendKey, trend: Trend) -> dict[str, Any]:
    return {"RowKey": _row_key(key), "Trend": zlib.compress(trend.written)}


def _key(row: Mapping[str, Any]) -> TrendKey:
    time, _, name = row["RowKey"].partition("|")
    return TrendKey(row["PartitionKey"], datetime.strptime(time, _TIME).replace(tzinfo=UTC), name)


def _stored(row: Mapping[str, Any]) -> StoredTrend:
    return StoredTrend(_key(row), Trend.read(zlib.decompress(row["Trend"])))
