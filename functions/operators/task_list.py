"""Lists of tasks in the order of time over all shards, page by page; no request reads a whole index.

Index rows may be outdated, so each task of a page is read. Times are UTC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from functions.core.derive import ProcessState, WaitingFor, derive
from functions.core.record import Direction, TaskRecord
from functions.messaging.order_search import search_key
from functions.operators.task_filters import (
    ListCursor,
    ListQuery,
    ListScope,
    Sorting,
    Source,
    encoded_cursor,
    matches,
    wrong_field,
)
from functions.storage.index_pages import EntryPage, ListedTask, listed_task, orders_query, read_entries
from functions.storage.row_keys import TaskIndex, index_range, shard_name
from functions.storage.table_contract import (
    CorruptRowError,
    NoSuchTaskError,
    RowQuery,
    StorageError,
    UnwritableRowsError,
)
from functions.storage.task_storage import TaskStorage
from functions.web.problems import ProblemError

#: Tasks of one page.
MOST_PER_PAGE = 50
#: Rows of one request (Table Storage).
ROWS_PER_REQUEST = 1000
#: Rows of one request for a page that is merged from all shards, and requests for each shard.
_MERGED_ROWS, _MERGED_ROUNDS = 200, 8
#: Pages of which no task matches that are read in one request.
_PAGES_WITHOUT_MATCH = 4

NO_TASK = "No task is recorded under this id."
#: Indexes of tasks that have not ended, which are not in the order of the list.
UNFINISHED = frozenset({TaskIndex.DUE, TaskIndex.SUSPENDED})


def as_problem(error: Exception) -> Exception:
    """Return the problem of an error of the storage, and any other error as it is."""
    match error:
        case NoSuchTaskError():
            return ProblemError(HTTPStatus.NOT_FOUND, NO_TASK)
        case CorruptRowError():
            return ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, f"The task cannot be read: {error}.")
        case UnwritableRowsError():
            return ProblemError(HTTPStatus.CONFLICT, "The rows of the task would become too large.")
        case StorageError() | TimeoutError():
            text = "The storage did not answer in time. Repeat the request; it may be carried out already."
            return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, text)
        case _:
            return error


class CorruptRow(BaseModel):
    """A row that cannot be decoded: its key in the table, and the reason."""

    model_config = ConfigDict(from_attributes=True)

    key: Annotated[str, Field(validation_alias="row_key")]
    reason: str


class TaskLine(BaseModel):
    """One task of a list. `suspension` is "suspended", or "suspending: 1 call under way" while calls end."""

    id: str
    workflow: str
    workflow_version: int
    state: ProcessState
    direction: Direction
    epoch: int
    run: int
    failure_count: int
    waiting_for: WaitingFor
    locked_by: str | None
    submitted_at: datetime
    finished_at: datetime | None
    due_at: datetime | None
    reason: str | None
    suspension: str | None
    suspended_by_operator: bool

    @classmethod
    def of(cls, record: TaskRecord) -> TaskLine:
        """Return the line of a task."""
        order, columns, suspension = record.order, derive(record), record.suspension
        calls = columns.calls_under_way
        ending = f"suspending: {calls} call{'s' if calls > 1 else ''} under way"
        return cls(
            id=order.task,
            workflow=order.workflow,
            workflow_version=order.version,
            state=columns.state,
            direction=record.direction,
            epoch=record.epoch,
            run=record.run,
            failure_count=record.failures,
            waiting_for=columns.waiting_for,
            locked_by=columns.locked_by,
            submitted_at=order.submitted_at,
            finished_at=record.finished_at,
            due_at=columns.due_at,
            reason=record.reason if suspension is None else suspension.reason,
            suspension=None if suspension is None else ending if calls else "suspended",
            suspended_by_operator=suspension is not None and suspension.by_operator,
        )


class TaskPage(BaseModel):
    """Some tasks. `cursor` is for the next page, null at the end.

    The list was searched up to the time `looked_to`, null: to its end. With `more`, there are further tasks
    that no cursor reaches: a longer prefix or another age finds them. `corrupt` names the corrupt rows of
    the page, which hide no other row.
    """

    tasks: list[TaskLine]
    cursor: str | None
    looked_to: datetime | None
    more: bool
    corrupt: list[CorruptRow]


@dataclass(frozen=True, slots=True)
class _Found:
    """Entries in the order of the list, the place of the next page, and corrupt rows by key."""

    entries: Sequence[ListedTask]
    place: ListCursor | None
    more: bool
    corrupt: dict[str, CorruptRowError]


def reading(index: TaskIndex, scope: ListScope) -> RowQuery:
    """Return the query of the rows of a scope in one index."""
    if index in UNFINISHED:
        return index_range(index)
    name = search_key(scope.query.find or "") if index is TaskIndex.FIND else ""
    since, until = scope.bounds()
    query = index_range(index, name, since=since, until=until)
    if scope.place is None or scope.query.order is Sorting.OLDEST:
        return query
    last = index_range(index, name, until=scope.place.at + timedelta.resolution).first
    return replace(query, beyond=f"{last}|{scope.place.task}")


class TaskList:
    """Finds tasks in the order of time.

    The index rows of ended tasks and of search texts begin with the newest, so a page is merged from the
    shards. Every other list is sorted after one request for each shard, which may leave rows out (`more`).
    Its methods raise `TransientStorageError`.
    """

    def __init__(self, storage: TaskStorage, now: Callable[[], datetime]) -> None:
        self._storage, self._now = storage, now

    async def find(self, task: str, epoch: int | None = None) -> TaskRecord:
        """Read a task. Raises `ProblemError`: 404, and 409 if it is in another epoch than `epoch`."""
        record = await self._storage.load(task)
        if record is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, NO_TASK)
        if epoch not in {None, record.epoch}:
            text = f"The task is in epoch {record.epoch} now, and not in epoch {epoch}."
            raise ProblemError(HTTPStatus.CONFLICT, text)
        return record

    async def read(self, tasks: Iterable[str]) -> tuple[list[TaskRecord], list[CorruptRowError]]:
        """Read tasks, without those that were deleted, and the errors of those that are corrupt."""
        found = await asyncio.gather(*map(self._read, tasks))
        records = [each for each in found if isinstance(each, TaskRecord)]
        return records, [each for each in found if isinstance(each, CorruptRowError)]

    async def _read(self, task: str) -> TaskRecord | CorruptRowError | None:
        try:
            return await self._storage.load(task)
        except CorruptRowError as error:
            return error

    async def page(self, query: ListQuery) -> TaskPage:
        """Return up to 50 tasks, the task whose id is the prefix first. Raises `ProblemError` 422."""
        now, asked, is_search = self._now(), query, query.find is not None
        corrupt: dict[str, CorruptRowError] = {}
        for _ in range(_PAGES_WITHOUT_MATCH if query.needs_records else 1):
            found = await self._entries(asked, now)
            others = (entry.task for entry in found.entries if is_search or entry.task != query.prefix)
            records, unreadable = await self.read(dict.fromkeys(others))
            corrupt |= found.corrupt | {error.row_key: error for error in unreadable}
            shown = [each for each in records if matches(query, each, now)]
            if shown or not found.entries or found.place is None:
                break
            asked = query.model_copy(update={"cursor": encoded_cursor(found.place)})
        if query.prefix is not None and query.cursor is None and not is_search:
            exact, unreadable = await self.read([query.prefix])
            corrupt |= {error.row_key: error for error in unreadable}
            shown = [*(each for each in exact if matches(query, each, now)), *shown]
        return TaskPage(
            tasks=[TaskLine.of(record) for record in shown],
            cursor=None if found.place is None else encoded_cursor(found.place),
            looked_to=None if found.place is None else found.place.at,
            more=found.more,
            corrupt=[CorruptRow.model_validate(error) for error in corrupt.values()],
        )

    async def _entries(self, query: ListQuery, now: datetime) -> _Found:
        place = query.place()
        scope = ListScope(query, now, place, place.source if place else query.sources[0])
        if scope.source is Source.NAME:
            found = await self._sorted(scope, [orders_query(query.prefix or "")])
            if not found.more:
                return _first(scope, found)
            if place is not None:  # a list by time has other places
                raise wrong_field("cursor", "the list has become too long: start again without a cursor")
            scope = replace(scope, source=Source.TIME)
        indexes = (TaskIndex.FIND,) if scope.source is Source.TEXT else scope.indexes
        is_newest = query.order is Sorting.NEWEST
        merged = [each for each in indexes if is_newest and each not in UNFINISHED]
        others = [reading(each, scope) for each in indexes if each not in merged]
        found = await self._sorted(scope, others)
        return await self._merged(scope, merged, found) if merged else _first(scope, found)

    async def _sorted(self, scope: ListScope, queries: Sequence[RowQuery]) -> _Found:
        """Read the first rows of all shards, and sort them."""
        pages = await self._pages(queries, ROWS_PER_REQUEST)
        entries = scope.select(each for page in pages for each in page.entries)
        more = any(page.cursor is not None for page in pages)
        return _Found(entries, None, more, {row.row_key: row for page in pages for row in page.corrupt})

    async def _merged(self, scope: ListScope, indexes: Sequence[TaskIndex], others: _Found) -> _Found:
        """Merge the pages of all shards. Entries behind the end of one page come in the next round."""
        entries: list[ListedTask] = []
        corrupt = dict(others.corrupt)
        for _ in range(_MERGED_ROUNDS):
            pages = await self._pages([reading(each, scope) for each in indexes], _MERGED_ROWS)
            corrupt |= {row.row_key: row for page in pages for row in page.corrupt}
            found = [*others.entries, *(each for page in pages for each in page.entries)]
            ends = [page.entries[-1] for page in pages if page.cursor is not None]
            if not ends:
                return _first(scope, _Found([*entries, *scope.select(found)], None, others.more, corrupt))
            end = min(ends, key=scope.rank)
            entries += scope.select(each for each in found if scope.rank(each) <= scope.rank(end))
            scope = replace(scope, place=scope.cursor(end))
            if len(entries) > MOST_PER_PAGE:
                break
        return _first(scope, _Found(entries, scope.place, others.more, corrupt))

    async def _pages(self, queries: Sequence[RowQuery], most: int) -> list[EntryPage[ListedTask]]:
        read = partial(read_shard, self._storage)
        shards = range(self._storage.shards)
        limited = [replace(query, most=most) for query in queries]
        return await asyncio.gather(*(read(shard, query) for query in limited for shard in shards))


async def read_shard(storage: TaskStorage, shard: int, query: RowQuery) -> EntryPage[ListedTask]:
    """Return the next page of a shard with an entry, or the last page."""
    corrupt: list[CorruptRowError] = []
    while True:
        page = await read_entries(storage.table, shard_name(shard), query, listed_task)
        corrupt += page.corrupt
        if page.entries or page.cursor is None:
            return replace(page, corrupt=corrupt)
        query = replace(query, beyond=page.cursor)


def _first(scope: ListScope, found: _Found) -> _Found:
    """Return the entries of one page."""
    if len(found.entries) <= MOST_PER_PAGE:
        return found
    place = scope.cursor(found.entries[MOST_PER_PAGE - 1])
    return replace(found, entries=found.entries[:MOST_PER_PAGE], place=place)
