"""Finds index entries over all shards in the order of time, page by page; never all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from functions.operations.tasks.query import Cursor, ListQuery, Sorting, Source
from functions.operations.tasks.wanted import UNDER_WAY, Wanted
from functions.pattern.errors import UnreadableError
from functions.pattern.ports import Ports
from functions.pattern.search_keys import search_key
from functions.pattern.store_ports import Index, IndexEntry, IndexPage, TaskIndex

MOST_PER_PAGE = 50

#: Entries that one request reads for a merge, and of a list that is read whole (Table Storage's limit).
_MOST_TO_MERGE = 200
_MOST_AT_ONCE = 1_000

#: Rounds over all shards for one page; entries that the filter refuses can fill some in vain.
_MOST_ROUNDS = 8

#: Reads a page of the shard that it is called with.
type _Reading = Callable[..., Awaitable[IndexPage]]


@dataclass(frozen=True, slots=True)
class Found[ItemT]:
    """Some items in order, and where the list goes on (None: nowhere); `more` is what no cursor leads to.

    Rows that can't be read are passed over, and named.
    """

    items: tuple[ItemT, ...]
    next: Cursor | None = None
    more: bool = False
    unreadable: tuple[UnreadableError, ...] = ()


@dataclass(frozen=True, slots=True)
class _Whole:
    """What was read of lists that are read whole; there can be `more`."""

    entries: list[IndexEntry]
    more: bool = False
    damaged: tuple[UnreadableError, ...] = ()


class Listing:
    """Finds index entries over all shards, in the order of time.

    A page takes at most 8 requests for each shard and index, and more only for empty answers.

    Tables are read forwards only, and what has ended is indexed by descending time, as is what a text finds:
    their newest tasks are a merge of the shards' first pages. Every other list is read whole, as far as one
    request for each shard goes, and sorted: the oldest, what is under way, which is indexed by when it is
    due, and the tasks whose ids have a prefix. If these are too many, they are looked for by time.
    """

    def __init__(self, ports: Ports) -> None:
        self._index = ports.index
        self._clock = ports.clock

    async def page(self, query: ListQuery) -> Found[IndexEntry]:
        """Find up to 50 entries from the cursor on; fewer, even none, while the list still goes on.

        Raises `TransientError`, and `ProblemError` 422 for a cursor that is not this list's.
        """
        place = query.place()
        wanted = Wanted(query, self._clock.now(), place, place.source if place else query.sources[0])
        if wanted.source is Source.NAME:
            named = await self._named(wanted)
            if not named.more:
                return _page(wanted, named.entries, None, named)
            wanted = replace(wanted, source=Source.TIME)
        merged, whole = self._readings(wanted)
        others = await self._whole(wanted, whole)
        if not merged:
            return _page(wanted, others.entries, None, others)
        return await self._merged(wanted, merged, others)

    def _readings(self, wanted: Wanted) -> tuple[list[_Reading], list[_Reading]]:
        """Give the readings whose pages are merged, and those that are read whole."""
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

    async def _named(self, wanted: Wanted) -> _Whole:
        return await self._whole(wanted, [partial(self._index.named, wanted.query.prefix or "")])

    async def _whole(self, wanted: Wanted, readings: Sequence[_Reading]) -> _Whole:
        pages = await self._pages(readings, most=_MOST_AT_ONCE)
        entries = wanted.of(each for page in pages for each in page.entries)
        return _Whole(entries, any(page.continuation is not None for page in pages), _damaged(pages))

    async def _merged(
        self, wanted: Wanted, readings: Sequence[_Reading], others: _Whole
    ) -> Found[IndexEntry]:
        """Merge pages with what was read of the `others`, whose entries come in between."""
        entries: list[IndexEntry] = []
        damaged: dict[str, UnreadableError] = {row.key: row for row in others.damaged}
        for _ in range(_MOST_ROUNDS):
            since, until = wanted.bounds()
            pages = await self._pages(readings, since=since, until=until, most=_MOST_TO_MERGE)
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
        return await asyncio.gather(*(_read(read, shard, asked) for read in readings for shard in shards))


async def read_under_way(index: TaskIndex, which: Index, shard: int, **asked: Any) -> IndexPage:
    """Read a page of what has not ended, whose entries tell when they were submitted."""
    page = await index.page(which, shard, **asked)
    return replace(page, entries=tuple(replace(each, at=each.submitted_at) for each in page.entries))


async def _read(read: _Reading, shard: int, asked: dict[str, Any]) -> IndexPage:
    """Read until there is something, or there can be nothing: a page can be empty and not the last."""
    page = await read(shard, **asked)
    while not page.entries and page.continuation is not None:
        page = await read(shard, after=page.continuation, **asked)
    return page


def _page(
    wanted: Wanted, entries: list[IndexEntry], following: Cursor | None, others: _Whole
) -> Found[IndexEntry]:
    """Give as many entries as fit on a page; `following` is where the list goes on after all of them."""
    if len(entries) > MOST_PER_PAGE:
        following = wanted.cursor(entries[MOST_PER_PAGE - 1])
    return Found(tuple(entries[:MOST_PER_PAGE]), following, others.more, others.damaged)


def _damaged(pages: Iterable[IndexPage]) -> tuple[UnreadableError, ...]:
    return tuple(row for page in pages for row in page.unreadable)
