"""A table of very many tasks, below the store: its pages are made as they are read, and changes are kept."""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, cast

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableEntity
from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.store.entities import Entity
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation
from functions.store.shards import Shards
from tests.fakes.shards import shards_in
from tests.fakes.vast_tasks import VastShard

_PAGE = 1000
_FIRST_TASK = '"'


class VastTable(EntityGroups):
    """The tasks of several shards; a page holds at most a thousand rows, as the service's do.

    After `pages` more pages, or rows read by key, no answer comes until a sweep's time is over.
    """

    def __init__(self, tasks: int, *, shards: int, **one_in: int) -> None:
        each = -(-tasks // shards)
        self.shards = [VastShard(number, shards, each, **one_in) for number in range(shards)]
        self.read = self.written = 0
        self.pages: int | None = None
        self._changed: list[dict[str, Entity | None]] = [{} for _ in range(shards)]
        self._changed_keys: list[list[str]] = [[] for _ in range(shards)]

    @property
    def as_shards(self) -> Shards:
        """Give it as the store takes it."""
        return shards_in(cast("TableClient", self), self, shards=len(self.shards))

    @property
    def tasks(self) -> int:
        """Count the tasks that there were in the beginning."""
        return sum(shard.tasks for shard in self.shards)

    @property
    def changed_tasks(self) -> set[TaskId]:
        """Name the tasks whose state was changed."""
        keys = (key.split("|") for keys in self._changed_keys for key in keys)
        return {TaskId(key[0]) for key in keys if key[1] == "task"}

    def query_entities(self, query: str, **asked: Any) -> _Pages:
        """Query one shard, as the store does."""
        return _Pages(self, query, asked["parameters"], asked.get("results_per_page") or _PAGE)

    async def get_entity(self, partition: str, key: str, **_: Any) -> TableEntity:
        """Read one row."""
        await self._answer()
        for row in self._rows(int(partition), key, key + "\0", only_tasks=False):
            return _as_read(row)
        raise ResourceNotFoundError

    async def send(self, partition: str, operations: Sequence[Operation]) -> GroupWritten | GroupRefused:
        """Change rows, all or none."""
        there = self._changed[int(partition)]
        for number, each in enumerate(operations):
            found = next(
                self._rows(int(partition), each.entity["RowKey"], each.entity["RowKey"] + "\0"), None
            )
            if each.kind in {"update", "delete"} and (found is None or each.etag not in {"*", _etag(found)}):
                return GroupRefused(412 if found else 404, "not as expected", number)
            if each.kind == "create" and found is not None:
                return GroupRefused(409, "EntityAlreadyExists", number)
        for each in operations:
            key = each.entity["RowKey"]
            if key not in there:
                insort(self._changed_keys[int(partition)], key)
            there[key] = None if each.kind == "delete" else {**each.entity, "!version": self.written}
            self.written += 1
        return GroupWritten(tuple(_etag(there[each.entity["RowKey"]]) for each in operations))

    async def page(
        self, query: str, keys: Mapping[str, Any], after: str | None, most: int
    ) -> tuple[list[TableEntity], str | None]:
        """Read one page, and the key of the first row behind it."""
        await self._answer()
        first, end = keys.get("first", keys.get("beyond")), keys.get("end", "~")
        only_tasks = "RowKey gt @beyond" in query
        rows = self._rows(int(keys["partition"]), after or str(first), str(end), only_tasks=only_tasks)
        if only_tasks:
            rows = (row for row in rows if row["RowKey"] > keys["beyond"])
        if "OrderID gt @nothing" in query:
            rows = (row for row in rows if row.get("OrderID"))
        found = list(islice(rows, most))
        following = next(rows, None)
        return [_as_read(row) for row in found], None if following is None else following["RowKey"]

    async def _answer(self) -> None:
        if self.pages == 0:
            await no_end()
        if self.pages is not None:
            self.pages -= 1
        self.read += 1
        await asyncio.sleep(0)  # others have their turn, as while a service is waited for

    def _rows(self, number: int, first: str, end: str, *, only_tasks: bool = False) -> Iterator[Entity]:
        """Make the rows between two keys, with what has changed since."""
        changed = self._changed[number]
        made = self._made(self.shards[number], first, end, only_tasks=only_tasks)
        unchanged = (row for row in made if row["RowKey"] not in changed)
        keys = self._changed_keys[number]
        others = keys[bisect_left(keys, first) : bisect_left(keys, end)]
        return heapq.merge(
            unchanged, (row for key in others if (row := changed[key])), key=itemgetter("RowKey")
        )

    @staticmethod
    def _made(shard: VastShard, first: str, end: str, *, only_tasks: bool) -> Iterator[Entity]:
        if first < _FIRST_TASK:
            yield from shard.index_rows(first, end)
        for number in range(shard.number_at(first), shard.tasks if end > _FIRST_TASK else 0):
            rows = [shard.task_row(number)] if only_tasks else shard.task_rows(number)
            for row in rows:
                if row["RowKey"] >= end:
                    return
                if row["RowKey"] >= first:
                    yield row


class _Pages:
    """What a query gives, page by page."""

    def __init__(self, table: VastTable, query: str, keys: Mapping[str, Any], most: int) -> None:
        self._asked = table, query, keys, most
        self.continuation_token: dict[str, str] | None = None

    def by_page(self, after: Mapping[str, str] | None = None) -> _Pages:
        """Begin at a page."""
        self.continuation_token = None if after is None else dict(after)
        return self

    async def __aiter__(self) -> AsyncIterator[AsyncIterator[TableEntity]]:
        table, query, keys, most = self._asked
        after = None if self.continuation_token is None else self.continuation_token["RowKey"]
        rows, following = await table.page(query, keys, after, most)
        self.continuation_token = None if following is None else {"RowKey": following}
        yield _each(rows)


async def no_end() -> None:
    """Take longer than a sweep has: its time passes in a moment."""
    loop = asyncio.get_running_loop()
    time = loop.time
    loop.time = lambda: time() + 1_000  # type: ignore[method-assign]
    await asyncio.Event().wait()


async def _each(rows: Sequence[TableEntity]) -> AsyncIterator[TableEntity]:
    for row in rows:
        yield row


def _etag(row: Entity | None) -> str:
    return str((row or {}).get("!version", "first"))


def _as_read(row: Entity) -> TableEntity:
    read = TableEntity(
        {name: value for name, value in row.items() if value is not None and name != "!version"}
    )
    read._metadata = {"etag": _etag(row), "timestamp": None}
    return read
