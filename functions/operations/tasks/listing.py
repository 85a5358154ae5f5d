"""Finds tasks for operators: one by its id, or some by their index entries or ids; never all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

from functions.operations.tasks.query import Cursor, ListQuery, Sorting
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, IndexPage, Stored
from functions.web.problems import ProblemError

_MOST_PER_PAGE = 50

#: Entries that one request reads for a merge, and of a list that is read whole (Table Storage's limit).
_MOST_TO_MERGE = 200
_MOST_AT_ONCE = 1_000

#: Rounds over all shards for one page; entries that the filter refuses can fill some in vain.
_MOST_ROUNDS = 8

#: Times in keys are no finer.
_MICROSECOND = timedelta(microseconds=1)

#: How far another host's clock can be ahead of ours: the most that settings allow.
_SKEW = timedelta(minutes=5)

_EPOCH = datetime.fromtimestamp(0, UTC)

_INDEX = {
    ProcessState.PENDING: Index.DUE,
    ProcessState.PROCESSING: Index.DUE,
    ProcessState.ERROR: Index.ERROR,
    ProcessState.PROCESSED: Index.DONE,
    ProcessState.COMPENSATED: Index.DONE,
}


@dataclass(frozen=True, slots=True)
class Found[ItemT]:
    """Some items in order, and where the list goes on (None: nowhere); `more` is what no cursor leads to.

    Rows that can't be read are passed over, and named.
    """

    items: tuple[ItemT, ...]
    next: Cursor | None = None
    more: bool = False
    unreadable: tuple[UnreadableError, ...] = ()


class Listing:
    """Finds index entries over all shards, in the order of time.

    A page takes at most 8 requests for each shard, and more only for empty answers.

    Tables are read forwards only, and what has ended is indexed by descending time: its newest tasks are a
    merge of the shards' first pages. Every other list is read whole, as far as one request for each shard
    goes, and sorted: the oldest of what ended, and what is under way, which is indexed by when it is due.
    """

    def __init__(self, ports: Ports) -> None:
        self._index = ports.index
        self._clock = ports.clock

    async def page(self, query: ListQuery) -> Found[IndexEntry]:
        """Find up to 50 entries from the cursor on; fewer, even none, while the list still goes on.

        Raises `TransientError`, and `ProblemError` 422 for a cursor that is not this list's.
        """
        wanted = _Wanted(query, self._clock.now(), query.place())
        if wanted.index.latest_first and query.order is Sorting.NEWEST:
            return await self._merged(wanted)
        return await self._whole(wanted)

    async def _merged(self, wanted: _Wanted) -> Found[IndexEntry]:
        entries: list[IndexEntry] = []
        damaged: dict[str, UnreadableError] = {}
        for _ in range(_MOST_ROUNDS):
            pages = await self._pages(wanted.index, *wanted.bounds(), most=_MOST_TO_MERGE)
            damaged |= {row.key: row for row in _damaged(pages)}
            read = [each for page in pages for each in page.entries]
            ends = [page.entries[-1] for page in pages if page.continuation is not None]
            if not ends:
                found = wanted.first(entries + wanted.of(read), None)
                return replace(found, unreadable=tuple(damaged.values()))
            horizon = min(ends, key=wanted.rank)  # beyond it, some page does not show all that there is
            entries += wanted.of(each for each in read if wanted.rank(each) <= wanted.rank(horizon))
            wanted = replace(wanted, place=wanted.cursor(horizon))
            if len(entries) > _MOST_PER_PAGE:
                break
        return replace(wanted.first(entries, wanted.place), unreadable=tuple(damaged.values()))

    async def _whole(self, wanted: _Wanted) -> Found[IndexEntry]:
        under_way = wanted.is_under_way
        since, until = (None, None) if under_way else wanted.bounds()
        pages = await self._pages(wanted.index, since, until, most=_MOST_AT_ONCE)
        entries = (each for page in pages for each in page.entries)
        if under_way:
            entries = (replace(each, at=each.submitted_at) for each in entries)
        found = wanted.first(wanted.of(entries), None)
        more = any(page.continuation is not None for page in pages)
        return replace(found, more=more, unreadable=_damaged(pages))

    async def _pages(
        self, index: Index, since: datetime | None, until: datetime | None, *, most: int
    ) -> list[IndexPage]:
        read = partial(self._page, index, since=since, until=until, most=most)
        return await asyncio.gather(*map(read, range(self._index.shards)))

    async def _page(self, index: Index, shard: int, **bounds: Any) -> IndexPage:
        """Read until there is something, or there can be nothing: a page can be empty and not the last."""
        page = await self._index.page(index, shard, **bounds)
        while not page.entries and page.continuation is not None:
            page = await self._index.page(index, shard, after=page.continuation, **bounds)
        return page


class Tasks:
    """Finds tasks. Index entries are hints: each task is read before it is shown.

    So a page can have fewer tasks than fit, even none, while the list goes on.
    """

    def __init__(self, ports: Ports) -> None:
        self._store = ports.store
        self._index = ports.index
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

    async def page(self, query: ListQuery) -> Found[TaskRecord]:
        """Read a page of at most 50 tasks. Raises `TransientError`, and `ProblemError` 422."""
        if query.prefix is not None:
            return await self._named(query.prefix, query)
        found = await self._listing.page(query)
        records, damaged = await self._records(entry.task for entry in found.items)
        shown = tuple(each for each in records if each.task.process_state is query.listed_state)
        return Found(shown, found.next, found.more, found.unreadable + damaged)

    async def _named(self, prefix: str, query: ListQuery) -> Found[TaskRecord]:
        """Read up to 50 tasks by their ids; `more` says that a longer prefix finds others."""
        shards = range(self._index.shards)
        reads = (self._index.named(prefix, shard, most=_MOST_PER_PAGE + 1) for shard in shards)
        found = {task for ids in await asyncio.gather(*reads) for task in ids}
        ids = sorted({TaskId(prefix), *found})  # the task of just that name, too, however many follow
        records, damaged = await self._records(ids[: _MOST_PER_PAGE + 1])
        shown = (each for each in records[:_MOST_PER_PAGE] if query.workflow in {None, each.order.workflow})
        shown = (each for each in shown if query.version in {None, each.order.workflow_version})
        shown = (each for each in shown if each.task.is_parked or not query.parked)
        in_state = (each for each in shown if query.state in {None, each.task.process_state})
        return Found(tuple(in_state), more=len(found) > _MOST_PER_PAGE, unreadable=damaged)

    async def _records(self, tasks: Iterable[TaskId]) -> tuple[list[TaskRecord], tuple[UnreadableError, ...]]:
        """Read the tasks, and set those apart that can't be read."""
        read = await asyncio.gather(*map(self._record, tasks))
        records = [each for each in read if isinstance(each, TaskRecord)]
        return records, tuple(each for each in read if isinstance(each, UnreadableError))

    async def _record(self, task: TaskId) -> TaskRecord | UnreadableError | None:
        try:
            stored = await self._store.load(task)
        except UnreadableError as error:
            return error
        return None if stored is None else stored.record


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which entries a page has, as of `now`: those that the query asks for, after `place`."""

    query: ListQuery
    now: datetime
    place: Cursor | None

    @property
    def index(self) -> Index:
        """Name the index that has them."""
        return Index.PARKED if self.query.parked else _INDEX[self.query.listed_state]

    @property
    def is_under_way(self) -> bool:
        """Tell whether nothing in the index has ended: then tasks are listed by their submission."""
        return self.index in {Index.DUE, Index.PARKED}

    def bounds(self) -> tuple[datetime | None, datetime]:
        """Give the times between which they ended, the second excluded."""
        until = self.now + _SKEW if self.query.min_age is None else self.now - _seconds(self.query.min_age)
        if self.place is not None and self.query.order is Sorting.NEWEST:
            until = min(until, self.place.at)
        since = None if self.query.max_age is None else self.now - _seconds(self.query.max_age)
        return since, until + _MICROSECOND

    def of(self, entries: Iterable[IndexEntry]) -> list[IndexEntry]:
        """Choose the entries that are wanted, in the list's order."""
        return sorted(filter(self._takes, entries), key=self.rank)

    def rank(self, at: IndexEntry | Cursor) -> tuple[timedelta, str]:
        """Tell where something stands in the list; what ended at the same moment is ordered by its id."""
        since_epoch = at.at - _EPOCH
        return since_epoch if self.query.order is Sorting.OLDEST else -since_epoch, at.task

    def first(self, entries: list[IndexEntry], following: Cursor | None) -> Found[IndexEntry]:
        """Give as many entries as fit on a page; `following` is where the list goes on after all of them."""
        if len(entries) <= _MOST_PER_PAGE:
            return Found(tuple(entries), following)
        shown = tuple(entries[:_MOST_PER_PAGE])
        return Found(shown, self.cursor(shown[-1]))

    def cursor(self, entry: IndexEntry) -> Cursor:
        """Name the place of an entry."""
        query = self.query
        return Cursor(state=query.listed_state, sorting=query.order, at=entry.at, task=entry.task)

    def _takes(self, entry: IndexEntry) -> bool:
        """Judge an entry; one of `!due` may be older than its task's state."""
        query, age = self.query, self.now - entry.at
        return (
            (self.is_under_way or entry.state is query.listed_state)
            and query.workflow in {None, entry.workflow}
            and query.version in {None, entry.version}
            and (query.max_age is None or age <= _seconds(query.max_age))
            and (query.min_age is None or age >= _seconds(query.min_age))
            and (self.place is None or self.rank(entry) > self.rank(self.place))
        )


def _damaged(pages: Iterable[IndexPage]) -> tuple[UnreadableError, ...]:
    return tuple(row for page in pages for row in page.unreadable)


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
