"""A shard's rows in one account while they are moved or cleared away: one run at a time writes them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Self

from azure.core import MatchConditions
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.store.keys import FENCE_ROW

_log = logging.getLogger(__name__)

#: Operations, and bytes, of one transaction (Table Storage: 100, one of which is the fence's, and 4 MiB; but
#: a large body blocks the event loop).
_MOST_OPERATIONS, _MOST_BYTES = 99, 1_000_000
#: Bytes that a row takes on the wire beside its values, and a character or byte of a value at most.
_ROW_BYTES, _CHARACTER_BYTES = 4 * 1024, 6

#: An operation as azure-data-tables takes it, and the bytes that it takes.
type _Change = tuple[tuple[Any, ...], int]


class FencedShard:
    """A shard in one account, for a run that has taken its fence, which is a row of the shard.

    Each transaction rewrites the fence if it is still as this run wrote it. So what an older run has sent
    changes nothing once another one has taken the fence, however late it arrives. All raises `AzureError`.
    """

    def __init__(self, table: TableClient, shard: str, etag: str) -> None:
        self._table = table
        self._shard = shard
        self._etag = etag

    @classmethod
    async def take(cls, table: TableClient, shard: str) -> Self:
        """Take the fence, whoever has it: afterwards, see that the map of the shards has not changed."""
        answer = await table.upsert_entity(_key(shard, FENCE_ROW), mode=UpdateMode.REPLACE)
        return cls(table, shard, str(answer["etag"]))

    async def mirror(self, source: TableClient) -> int:
        """Make the rows equal to those of another account; give how many were not.

        None were not: then they all are as the source was at one moment, as a task's own row is its last one,
        and every change of a task changes that one.
        """
        return await self._write(
            _differences(_rows_of(source, self._shard), _rows_of(self._table, self._shard))
        )

    async def clear(self) -> int:
        """Delete all rows; give how many there were."""
        return await self._write(_differences(_no_rows(), _rows_of(self._table, self._shard)))

    async def release(self) -> None:
        """Delete the fence: from now on, no run can write here without taking it."""
        key = _key(self._shard, FENCE_ROW)
        await self._table.delete_entity(key, etag=self._etag, match_condition=MatchConditions.IfNotModified)

    async def _write(self, changes: AsyncIterator[_Change]) -> int:
        group: list[tuple[Any, ...]] = []
        count = size = 0
        async for operation, its_size in changes:
            if group and (len(group) == _MOST_OPERATIONS or size + its_size > _MOST_BYTES):
                await self._send(group)
                group, size = [], 0
            group.append(operation)
            count, size = count + 1, size + its_size
        if group:
            await self._send(group)
        return count

    async def _send(self, group: list[tuple[Any, ...]]) -> None:
        condition = {"etag": self._etag, "match_condition": MatchConditions.IfNotModified}
        fence = ("update", _key(self._shard, FENCE_ROW), {"mode": UpdateMode.REPLACE, **condition})
        answers = await self._table.submit_transaction([fence, *group])
        self._etag = str(answers[0]["etag"])
        _log.info("shard %s: %d rows written", self._shard, len(group))


async def is_empty(table: TableClient, shard: str) -> bool:
    """Tell whether there is no row of a shard, and no fence."""
    return await anext(aiter(_query(table, shard)), None) is None


def _query(table: TableClient, shard: str) -> AsyncIterable[Any]:
    return table.query_entities("PartitionKey eq @shard", parameters={"shard": shard})


async def _rows_of(table: TableClient, shard: str) -> AsyncIterator[Any]:
    """Read a shard's rows in the order of their keys, without its fence."""
    async for row in _query(table, shard):
        if row["RowKey"] != FENCE_ROW:
            yield row


async def _no_rows() -> AsyncIterator[Any]:
    for row in tuple[Any, ...]():
        yield row


async def _differences(wanted: AsyncIterator[Any], there: AsyncIterator[Any]) -> AsyncIterator[_Change]:
    """Give what makes the rows that are there those that are wanted; both come in the order of their keys."""
    old: Any = await anext(there, None)
    async for row in wanted:
        while old is not None and old["RowKey"] < row["RowKey"]:
            yield _deletion(old)
            old = await anext(there, None)
        is_there = old is not None and old["RowKey"] == row["RowKey"]
        if not is_there or dict(old) != dict(row):
            yield ("upsert", row, {"mode": UpdateMode.REPLACE}), _size(row)
        if is_there:
            old = await anext(there, None)
    while old is not None:
        yield _deletion(old)
        old = await anext(there, None)


def _deletion(row: Any) -> _Change:
    return ("delete", _key(row["PartitionKey"], row["RowKey"])), _ROW_BYTES


def _size(row: Any) -> int:
    values = (value for value in row.values() if isinstance(value, str | bytes))
    return _ROW_BYTES + sum(_CHARACTER_BYTES * len(value) for value in values)


def _key(shard: str, row: str) -> dict[str, Any]:
    return {"PartitionKey": shard, "RowKey": row}
