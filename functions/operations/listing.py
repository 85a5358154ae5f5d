"""The entries of one state over all shards, in the order of their times: a bounded merge of shards' pages.

Tables are read forwards only. So the newest of what ended come out of windows of time, which begin at the
far end and go back: each is as long as one request for each shard can read. What is under way is indexed
by the time when it is due, which is nobody's order: it is read whole, and sorted by its submission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import repeat

from functions.operations.cursor import Cursor, Sorting
from functions.operations.wanted import Wanted, began_at
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.store_ports import (
    Index,
    IndexEntry,
    IndexPage,
    TaskIndex,
)

MOST_PER_PAGE = 50

#: Entries that one request reads of what ended, and of what is under way (Table Storage's limit).
_MOST_PER_REQUEST = 200
_MOST_UNDER_WAY = 1_000

#: Rounds over all shards for one page; entries that the filter refuses can fill some in vain.
_MOST_ROUNDS = 8

#: A window is made for a request that is full to this part, since shards differ.
_FULL = 0.7

#: How much longer than the last one a window is at most.
_GROWTH = 16

#: Times in keys are no finer.
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Found:
    """Entries in order, and where the list goes on (None: nowhere); `more` is what no cursor leads to."""

    entries: tuple[IndexEntry, ...]
    next: Cursor | None
    more: bool = False


class Listing:
    """Merges the shards' pages: at most 8 requests for each shard, for one page of a list."""

    def __init__(self, *, index: TaskIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock

    async def page(self, wanted: Wanted, cursor: Cursor | None) -> Found:
        """Find up to 50 entries from `cursor` on; fewer, even none, while the list still goes on.

        Raises `TransientError`.
        """
        if wanted.index is Index.DUE:
            return await self._under_way(wanted, cursor)
        if wanted.sorting is Sorting.OLDEST:
            return await self._oldest(wanted, cursor)
        return await self._newest(wanted, cursor)

    async def _under_way(self, wanted: Wanted, cursor: Cursor | None) -> Found:
        now = self._clock.now()
        first, end = wanted.bounds(now)
        place = cursor or wanted.place(first if wanted.sorting is Sorting.OLDEST else end)
        pages = await self._pages(wanted.index, first, end, most=_MOST_UNDER_WAY)
        entries = [replace(entry, at=began_at(entry)) for page in pages for entry in page.entries]
        found = _cut(wanted, _taken(wanted, place, entries, now), None)
        return replace(found, more=_horizon(pages) is not None)

    async def _oldest(self, wanted: Wanted, cursor: Cursor | None) -> Found:
        now = self._clock.now()
        first, end = wanted.bounds(now)
        place = cursor or wanted.place(first)
        entries: list[IndexEntry] = []
        for _ in repeat(None, _MOST_ROUNDS):
            pages = await self._pages(wanted.index, place.at, end)
            horizon = _horizon(pages)
            entries += _taken(wanted, place, _up_to(horizon, pages), now)
            if horizon is None:
                return _cut(wanted, entries, None)
            place = wanted.place(horizon.at, horizon.task)
            if len(entries) > MOST_PER_PAGE:
                break
        return _cut(wanted, entries, place)

    async def _newest(self, wanted: Wanted, cursor: Cursor | None) -> Found:
        now = self._clock.now()
        first, end = wanted.bounds(now)
        place = wanted.place(end) if cursor is None or cursor.at > end else cursor
        entries: list[IndexEntry] = []
        window = place.at - first
        for _ in repeat(None, _MOST_ROUNDS):
            since = max(first, place.at - window)
            pages = await self._pages(wanted.index, since, place.at + _MOMENT)
            window = _fitting(window, pages)
            if _horizon(pages) is not None:
                continue
            entries += _taken(wanted, place, _up_to(None, pages), now)
            if since == first:
                return _cut(wanted, entries, None)
            place = wanted.place(since)
            if len(entries) > MOST_PER_PAGE:
                break
        return _cut(wanted, entries, place)

    async def _pages(
        self, index: Index, since: datetime, until: datetime, *, most: int = _MOST_PER_REQUEST
    ) -> list[IndexPage]:
        shards = range(self._index.shards)
        return await asyncio.gather(*(self._page(index, shard, since, until, most) for shard in shards))

    async def _page(self, index: Index, shard: int, since: datetime, until: datetime, most: int) -> IndexPage:
        """Read until there is something, or there can be nothing: a page can be empty and not the last."""
        read = partial(self._index.page, index, shard, since=since, until=until, most=most)
        page = await read()
        while not page.entries and page.continuation is not None:
            page = await read(after=page.continuation)
        return page


def _fitting(window: timedelta, pages: Sequence[IndexPage]) -> timedelta:
    """Make the next window after what the last one showed: shorter when it was too much."""
    crowded = [page.entries for page in pages if page.continuation is not None]
    if crowded:
        return min(window / 2, _FULL * min(entries[-1].at - entries[0].at for entries in crowded))
    fullest = max(len(page.entries) for page in pages)
    return window * min(_GROWTH, max(1, _FULL * _MOST_PER_REQUEST / max(1, fullest)))


def _horizon(pages: Sequence[IndexPage]) -> IndexEntry | None:
    """Find the entry beyond which some page does not show all that there is (None: all is shown)."""
    last = [page.entries[-1] for page in pages if page.continuation is not None]
    return min(last, key=_order, default=None)


def _up_to(horizon: IndexEntry | None, pages: Sequence[IndexPage]) -> Iterator[IndexEntry]:
    entries = (entry for page in pages for entry in page.entries)
    return (entry for entry in entries if horizon is None or _order(entry) <= _order(horizon))


def _taken(wanted: Wanted, place: Cursor, entries: Iterable[IndexEntry], now: datetime) -> list[IndexEntry]:
    taken = (entry for entry in entries if place.leads_to(entry) and wanted.takes(entry, now))
    return sorted(taken, key=_order, reverse=wanted.sorting is Sorting.NEWEST)


def _order(entry: IndexEntry) -> tuple[datetime, TaskId]:
    return entry.at, entry.task


def _cut(wanted: Wanted, entries: list[IndexEntry], following: Cursor | None) -> Found:
    if len(entries) <= MOST_PER_PAGE:
        return Found(tuple(entries), following)
    shown = tuple(entries[:MOST_PER_PAGE])
    return Found(shown, wanted.place(shown[-1].at, shown[-1].task))
