"""Finds index entries over all shards in the order of time, page by page; never all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any

from functions.operations.tasks.query import (
    UNDER_WAY,
    Cursor,
    ListQuery,
    Sorting,
    Source,
    Wanted,
    accepts,
    wrong_field,
)
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import search_key
from functions.pattern.store_ports import Index, IndexEntry, IndexPage, Stored, TaskIndex
from functions.web.problems import ProblemError

#: Tasks of one page.
MOST_PER_PAGE = 50

#: Table Storage's limit of the rows of one request.
ROWS_PER_REQUEST = 1_000

type _Reading = Callable[..., Awaitable[IndexPage]]


@dataclass(frozen=True, slots=True)
class Found[ItemT]:
    """Items in order, the next cursor (None: the end), `more` that no cursor leads to, and corrupt rows."""

    items: tuple[ItemT, ...]
    next: Cursor | None
    more: bool
    unreadable: tuple[UnreadableError, ...]


@dataclass(frozen=True, slots=True)
class _Whole:
    entries: list[IndexEntry]
    more: bool
    damaged: tuple[UnreadableError, ...]


class Listing:
    """Finds index entries over all shards, in the order of time, by at most 8 requests a shard and index.

    Tables are read forwards only. Ended tasks, and those that a text finds, are indexed by descending time:
    their newest are a merge of the shards' first pages. Every other list is read whole, as far as one request
    for each shard reaches, and sorted. If a prefix has too many tasks, they are searched by time.
    """

    def __init__(self, ports: Ports) -> None:
        self._index = ports.index
        self._clock = ports.clock

    async def page(self, query: ListQuery) -> Found[IndexEntry]:
        """Find up to 50 entries from the cursor on, even none. Raises `TransientError`, `ProblemError`."""
        place = query.place()
        wanted = Wanted(query, self._clock.now(), place, place.source if place else query.sources[0])
        if wanted.source is Source.NAME:
            named = await self._whole(wanted, [partial(self._index.named, query.prefix or "")])
            if not named.more:
                return _page(wanted, named.entries, None, named)
            if place is not None:  # by time, it would go on elsewhere
                raise wrong_field("cursor", "there are too many by now to go on by their ids: begin again")
            wanted = replace(wanted, source=Source.TIME)
        merged, whole = self._readings(wanted)
        others = await self._whole(wanted, whole)
        if not merged:
            return _page(wanted, others.entries, None, others)
        return await self._merged(wanted, merged, others)

    def _readings(self, wanted: Wanted) -> tuple[list[_Reading], list[_Reading]]:
        if wanted.source is Source.TEXT:
            sorted_by_time = [partial(self._index.found, search_key(wanted.query.find or ""))]
            others: list[_Reading] = []
        else:
            ended = [each for each in wanted.indexes if each not in UNDER_WAY]
            sorted_by_time = [partial(self._index.page, each) for each in ended]
            others = [
                partial(read_under_way, self._index, each) for each in wanted.indexes if each in UNDER_WAY
            ]
        if wanted.query.order is Sorting.NEWEST:
            return [*sorted_by_time], others
        since, until = wanted.bounds()
        return [], [*others, *(partial(each, since=since, until=until) for each in sorted_by_time)]

    async def _whole(self, wanted: Wanted, readings: Sequence[_Reading]) -> _Whole:
        pages = await self._pages(readings, most=ROWS_PER_REQUEST)
        entries = wanted.of(each for page in pages for each in page.entries)
        return _Whole(entries, any(page.continuation is not None for page in pages), _damaged(pages))

    async def _merged(
        self, wanted: Wanted, readings: Sequence[_Reading], others: _Whole
    ) -> Found[IndexEntry]:
        entries: list[IndexEntry] = []
        damaged: dict[str, UnreadableError] = {row.key: row for row in others.damaged}
        for _ in range(8):  # rounds over all shards; entries that the filter refuses can fill some in vain
            since, until = wanted.bounds()
            pages = await self._pages(readings, since=since, until=until, most=200)
            damaged |= {row.key: row for row in _damaged(pages)}
            read = [*others.entries, *(each for page in pages for each in page.entries)]
            ends = [page.entries[-1] for page in pages if page.continuation is not None]
            others = replace(others, damaged=tuple(damaged.values()))
            if not ends:
                return _page(wanted, entries + wanted.of(read), None, others)
            horizon = min(ends, key=wanted.rank)  # beyond it, some page does not show all that there is
            entries += wanted.of(each for each in read if wanted.rank(each) <= wanted.rank(horizon))
            wanted = replace(wanted, place=wanted.cursor(horizon))
            if len(entries) > MOST_PER_PAGE:
                break
        return _page(wanted, entries, wanted.place, others)

    async def _pages(self, readings: Sequence[_Reading], **asked: Any) -> list[IndexPage]:
        shards = range(self._index.shards)
        return await asyncio.gather(*(read_on(read, shard, **asked) for read in readings for shard in shards))


async def read_under_way(index: TaskIndex, which: Index, shard: int, **asked: Any) -> IndexPage:
    """Read a page of what has not ended, whose entries tell when they were submitted."""
    page = await index.page(which, shard, **asked)
    return replace(page, entries=tuple(replace(each, at=each.submitted_at) for each in page.entries))


async def read_on(read: _Reading, shard: int, **asked: Any) -> IndexPage:
    """Read until there is something, or there can be nothing: a page can be empty and not the last."""
    page = await read(shard, **asked)
    damaged = page.unreadable
    while not page.entries and page.continuation is not None:
        page = await read(shard, after=page.continuation, **asked)
        damaged += page.unreadable
    return replace(page, unreadable=damaged)


def _page(
    wanted: Wanted, entries: list[IndexEntry], following: Cursor | None, others: _Whole
) -> Found[IndexEntry]:
    if len(entries) > MOST_PER_PAGE:
        following = wanted.cursor(entries[MOST_PER_PAGE - 1])
    return Found(tuple(entries[:MOST_PER_PAGE]), following, others.more, others.damaged)


def _damaged(pages: Iterable[IndexPage]) -> tuple[UnreadableError, ...]:
    return tuple(row for page in pages for row in page.unreadable)


class Tasks:
    """Finds tasks, by index entries as hints: a page can hold few tasks, even none, before the list's end."""

    def __init__(self, ports: Ports) -> None:
        self._store = ports.store
        self._clock = ports.clock
        self._listing = Listing(ports)

    async def find(self, task: TaskId) -> Stored:
        """Read one task. Raises `ProblemError` 404, or 500 for damaged rows, and `TransientError`."""
        try:
            stored = await self._store.load(task)
        except UnreadableError as error:
            raise ProblemError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"The task can't be read: {error}."
            ) from error
        if stored is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "No task is recorded under this id.")
        return stored

    async def seen(self, task: TaskId, epoch: int | None) -> Stored:
        """Read one task in an `epoch` (None: any). Raises as `find` does, and `ProblemError` 409."""
        stored = await self.find(task)
        if epoch not in (None, stored.record.task.epoch):
            text = f"The task is in epoch {stored.record.task.epoch} now, and not in epoch {epoch}."
            raise ProblemError(HTTPStatus.CONFLICT, text)
        return stored

    async def each(self, tasks: Iterable[TaskId]) -> tuple[list[Stored], tuple[UnreadableError, ...]]:
        """Read tasks, and set those apart that can't be read; those that are gone are left out."""
        read = await asyncio.gather(*map(self._read, tasks))
        found = [each for each in read if isinstance(each, Stored)]
        return found, tuple(each for each in read if isinstance(each, UnreadableError))

    async def page(self, query: ListQuery) -> Found[TaskRecord]:
        """Read some 50 tasks, the prefix's own first. Raises `TransientError`, and `ProblemError` 422."""
        now = self._clock.now()
        found = await self._sought(query, now)
        if query.prefix is None:
            return found
        others = tuple(each for each in found.items if each.order.task != query.prefix)
        if query.cursor is not None:
            return replace(found, items=others)
        exact, damaged = await self._records([TaskId(query.prefix)])
        first = tuple(each for each in exact if accepts(query, each, now))
        unreadable = tuple({row.key: row for row in (*damaged, *found.unreadable)}.values())
        return replace(found, items=(*first, *others), unreadable=unreadable)

    async def _sought(self, query: ListQuery, now: datetime) -> Found[TaskRecord]:
        damaged: tuple[UnreadableError, ...] = ()
        for _ in range(4 if query.looks_into_tasks else 1):
            found = await self._listing.page(query)
            records, unreadable = await self._records(dict.fromkeys(entry.task for entry in found.items))
            damaged = tuple({row.key: row for row in (*damaged, *found.unreadable, *unreadable)}.values())
            shown = tuple(each for each in records if accepts(query, each, now))
            if shown or not found.items or found.next is None:
                break
            query = query.model_copy(update={"cursor": found.next.text()})
        return Found(shown, found.next, found.more, damaged)

    async def _records(self, tasks: Iterable[TaskId]) -> tuple[list[TaskRecord], tuple[UnreadableError, ...]]:
        found, unreadable = await self.each(tasks)
        return [stored.record for stored in found], unreadable

    async def _read(self, task: TaskId) -> Stored | UnreadableError | None:
        try:
            return await self._store.load(task)
        except UnreadableError as error:
            return error
