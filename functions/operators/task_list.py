"""Lists of tasks in the order of time over all shards, page by page; no request reads a whole index.

Filters and cursors also serve counts and bulk actions. Index rows may be outdated, so each task of a page is
read. Times are UTC, and ages are in seconds.
"""

from __future__ import annotations

import asyncio
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from functions.core.definition.workflow_definition import MOST_SEARCH_CHARACTERS, search_key
from functions.core.derive import ProcessState, WaitingFor, derive
from functions.core.error_texts import MOST_CLASS_BYTES, error_class, failed_step
from functions.core.json_values import PLAIN_NUMBER
from functions.core.record import NAME_PATTERN, Direction, OperationState, Order, TaskRecord
from functions.http.problems import FieldFault, ProblemError
from functions.messaging.message_format import TASK_ID_PATTERN, UtcTime
from functions.storage.index_pages import EntryPage, ListedTask, listed_task, read_entries
from functions.storage.row_keys import TaskIndex, index_range, shard_name
from functions.storage.table_contract import (
    CorruptRowError,
    NoSuchTaskError,
    RowQuery,
    StorageError,
    UnwritableRowsError,
)
from functions.storage.task_storage import TaskStorage

#: The largest difference between the clocks of two instances that lists allow for.
CLOCK_SKEW = timedelta(minutes=5)
#: Tasks of one page.
MOST_PER_PAGE = 50
#: Rows of one request (Table Storage).
ROWS_PER_REQUEST = 1000
#: Rows of one request for a page that is merged from all shards, and requests for each shard.
_MERGED_ROWS, _MERGED_ROUNDS = 200, 8
#: Pages of which no task matches that are read in one request.
_PAGES_WITHOUT_MATCH = 4

NO_TASK = "No task is recorded under this id."


def wrong_field(field: str, reason: str) -> ProblemError:
    """Return the problem of a request with a wrong field: 422."""
    fault = FieldFault(field=field, reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])


WorkflowName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
Version = Annotated[int, PLAIN_NUMBER, Field(ge=1, description="The version of the workflow")]
_Age = Annotated[float, PLAIN_NUMBER, Field(ge=0, le=315_360_000, allow_inf_nan=False)]  # ten years


def _text(most: int, description: str) -> Any:
    return Field(min_length=1, max_length=most, description=description)


class Sorting(StrEnum):
    """The direction of a list in time."""

    NEWEST = "newest"
    OLDEST = "oldest"


class Cursor(BaseModel):
    """A place in the list or selection with the digest `of`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: int

    @property
    def text(self) -> str:
        """Return the cursor as text for a URL."""
        return urlsafe_b64encode(self.model_dump_json().encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, of: int) -> Self:
        """Return a cursor. Raises `ProblemError` 422 for a cursor of another list."""
        with suppress(ValueError):
            place = cls.model_validate_json(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            if place.of == of:
                return place
        raise wrong_field("cursor", "not a cursor of this list")


class ListCursor(Cursor):
    """The place of the last entry of a page."""

    at: UtcTime
    task: Annotated[str, Field(pattern=TASK_ID_PATTERN)]


_ENDED = frozenset({ProcessState.ERROR, ProcessState.PROCESSED, ProcessState.COMPENSATED})


class TaskFilter(BaseModel):
    """Tasks of one state (by default `Error`), or those that are `suspended` or `under_way`.

    With a search text, submitter or correlation id, the default is any state. Ages are in seconds
    since the end of a task, or since the submission of a task under way.
    """

    model_config = ConfigDict(extra="forbid")

    state: ProcessState | None = None
    suspended: bool = False
    under_way: Annotated[bool, Field(description="`Pending` or `Processing`, and not suspended")] = False
    workflow: WorkflowName | None = None
    version: Version | None = None
    step: Annotated[
        str | None,
        Field(pattern=f"^{NAME_PATTERN}$", description="The failed step, or a step that is under way"),
    ] = None
    error: Annotated[
        str | None, _text(MOST_CLASS_BYTES, "An error text of the same class as the task's error")
    ] = None
    submitter: Annotated[str | None, _text(100, "The caller who submitted the order")] = None
    correlation_id: Annotated[str | None, _text(128, "The correlation id of the caller")] = None
    find: Annotated[str | None, _text(MOST_SEARCH_CHARACTERS, "A search text of the order")] = None
    min_age: _Age | None = None
    max_age: _Age | None = None

    # A contradiction is rejected: if one part were ignored, an action would reach other tasks.
    @field_validator("suspended", "under_way")
    @classmethod
    def _check_unfinished(cls, chosen: bool, before: ValidationInfo) -> bool:  # noqa: FBT001 - of pydantic
        if chosen and (before.data.get("suspended") or before.data.get("state") in _ENDED):
            raise ValueError("a task is either in Error, ended, suspended or under way")
        return chosen

    @property
    def listed_state(self) -> ProcessState | None:
        """Return the state whose tasks are listed, None for any."""
        is_search = any(each is not None for each in (self.find, self.submitter, self.correlation_id))
        if self.state is not None or is_search or self.suspended or self.under_way:
            return self.state
        return ProcessState.ERROR

    @property
    def is_exact(self) -> bool:
        """Return whether the index rows decide which tasks match."""
        has_cause = self.step is not None or self.error is not None
        is_ended = self.listed_state in {ProcessState.PROCESSED, ProcessState.COMPENSATED}
        has_exact_rows = (self.suspended or is_ended) and not has_cause
        return self.find is None and (has_exact_rows or self.listed_state is ProcessState.ERROR)


class ListQuery(TaskFilter):
    """A filter, and the order and place of a page. Tasks of one moment are ordered by id."""

    order: Sorting = Sorting.NEWEST
    cursor: Annotated[str | None, Field(max_length=512, description="From the previous page")] = None

    @property
    def digest(self) -> int:
        """Return the digest by which cursors are compared."""
        return zlib.crc32(self.model_dump_json(exclude={"cursor"}).encode())

    def place(self) -> ListCursor | None:
        """Return the decoded cursor. Raises `ProblemError` 422 for a cursor of another list."""
        return None if self.cursor is None else ListCursor.read(self.cursor, self.digest)


_INDEXES = {
    None: (TaskIndex.DUE, TaskIndex.SUSPENDED, TaskIndex.ERROR, TaskIndex.DONE),
    ProcessState.PENDING: (TaskIndex.DUE,),
    ProcessState.PROCESSING: (TaskIndex.DUE,),
    ProcessState.ERROR: (TaskIndex.ERROR,),
    ProcessState.PROCESSED: (TaskIndex.DONE,),
    ProcessState.COMPENSATED: (TaskIndex.DONE,),
}

#: Indexes of tasks that have not ended, which are not in the order of a list.
_UNFINISHED = frozenset({TaskIndex.DUE, TaskIndex.SUSPENDED})
#: Index rows of these states may be outdated; rows of search texts have no state.
_INEXACT = frozenset({None, ProcessState.PENDING, ProcessState.PROCESSING})


def time_of(entry: ListedTask) -> datetime:
    """Return the time by which an entry is listed: its end, or its submission."""
    return entry.submitted_at if entry.state in _INEXACT or entry.at is None else entry.at


@dataclass(frozen=True, slots=True)
class ListScope:
    """The entries of a list at the time `now`, after `place`.

    Tasks with a search text are in an index of their own, in the order of submission.
    """

    query: ListQuery
    now: datetime
    place: ListCursor | None

    @property
    def indexes(self) -> tuple[TaskIndex, ...]:
        """Return the indexes by state that contain the tasks."""
        if self.query.suspended:
            return (TaskIndex.SUSPENDED,)
        return (TaskIndex.DUE,) if self.query.under_way else _INDEXES[self.query.listed_state]

    def queries(self) -> tuple[list[RowQuery], list[RowQuery]]:
        """Return the queries of unfinished tasks, whose rows are not in the list's order, and all others."""
        if self.query.find is not None:
            return [], [self._timed(TaskIndex.FIND, search_key(self.query.find))]
        unfinished = [index_range(index) for index in self.indexes if index in _UNFINISHED]
        return unfinished, [self._timed(index) for index in self.indexes if index not in _UNFINISHED]

    def _timed(self, index: TaskIndex, name: str = "") -> RowQuery:
        """Return the query of an index whose rows begin with the newest, after `place`."""
        until, since = self.now + CLOCK_SKEW, None
        if self.query.find is None and self.query.min_age is not None:
            until = self.now - timedelta(seconds=self.query.min_age)
        if self.query.find is None and self.query.max_age is not None:
            since = self.now - timedelta(seconds=self.query.max_age)
        query = index_range(index, name, since=since, until=until + timedelta.resolution)
        if self.place is None or self.query.order is Sorting.OLDEST:
            return query
        last = index_range(index, name, until=self.place.at + timedelta.resolution).first
        return replace(query, beyond=f"{last}|{self.place.task}")

    def select(self, entries: Iterable[ListedTask]) -> list[ListedTask]:
        """Return the entries that may match, in the order of the list."""
        return sorted(filter(self.may_match, entries), key=self.rank)

    def rank(self, entry: ListedTask | ListCursor) -> tuple[timedelta, str]:
        """Return the sort key of an entry."""
        at = entry.at if isinstance(entry, ListCursor) else time_of(entry)
        since_epoch = at - datetime.fromtimestamp(0, UTC)
        return since_epoch if self.query.order is Sorting.OLDEST else -since_epoch, entry.task

    def cursor(self, entry: ListedTask) -> ListCursor:
        """Return the place of an entry."""
        return ListCursor(of=self.query.digest, at=time_of(entry), task=entry.task)

    def may_match(self, entry: ListedTask) -> bool:
        """Return whether the task of an entry may match; `matches` decides."""
        query = self.query
        return (
            _has_order(query, entry)
            and (entry.state in _INEXACT or query.listed_state in {None, entry.state})
            and (entry.error_class is None or self._has_cause(entry))
            and (query.find is not None or _has_age(query, time_of(entry), self.now))
            and (self.place is None or self.rank(entry) > self.rank(self.place))
        )

    def _has_cause(self, entry: ListedTask) -> bool:
        query = self.query
        is_of_class = query.error is None or error_class(query.error) == entry.error_class
        return is_of_class and query.step in {None, entry.failed_step}


def matches(query: TaskFilter, record: TaskRecord, now: datetime) -> bool:
    """Return whether a task matches a filter. Its search texts are in the index only."""
    is_suspended = record.suspension is not None
    return (
        _has_order(query, record.order)
        and query.listed_state in {None, derive(record).state}
        and (is_suspended or not query.suspended)
        and (not query.under_way or (record.finished_at is None and not is_suspended))
        and (query.step is None or _is_at(record, query.step))
        and (query.error is None or _has_error(record, query.error))
        and _has_age(query, record.finished_at or record.order.submitted_at, now)
    )


def _has_order(query: TaskFilter, order: ListedTask | Order) -> bool:
    return (
        query.workflow in {None, order.workflow}
        and query.version in {None, order.version}
        and query.submitter in {None, order.submitter}
        and query.correlation_id in {None, order.correlation_id}
    )


def _has_age(query: TaskFilter, time: datetime, now: datetime) -> bool:
    age = (now - time).total_seconds()
    return (query.min_age or 0) <= max(age, 0) and (query.max_age is None or age <= query.max_age)


def _has_error(record: TaskRecord, error: str) -> bool:
    text = record.error or record.reason
    return text is not None and error_class(text, record.order.task) == error_class(error)


def _is_at(record: TaskRecord, step: str) -> bool:
    """Return whether a task failed at a step, or whether the step or an item of it is under way."""
    if record.error is not None:
        return failed_step(record) == step
    state = OperationState.RUNNING if record.finished_at is None else OperationState.REFUSED
    steps = (each for each in record.steps.values() if record.order.by_name[each.name].step == step)
    return any(state in {each.do.state, each.undo.state} for each in steps)


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
        order, columns = record.order, derive(record)
        reason, suspension, calls = record.reason, None, columns.calls_under_way
        if record.suspension is not None:
            reason, suspension = record.suspension.reason, "suspended"
            if calls:
                suspension = f"suspending: {calls} call{'s' if calls > 1 else ''} under way"
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
            reason=reason,
            suspension=suspension,
            suspended_by_operator=record.suspension is not None and record.suspension.by_operator,
        )


class TaskPage(BaseModel):
    """Some tasks. `cursor` is for the next page, null at the end.

    The list was searched up to the time `looked_to`, null: to its end. With `more`, there are further tasks
    that no cursor reaches: use another age. `corrupt` names the corrupt rows of the page.
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
        """Return up to 50 tasks. Raises `ProblemError` 422."""
        now, place = self._now(), query.place()
        corrupt: dict[str, CorruptRowError] = {}
        for _ in range(1 if query.is_exact else _PAGES_WITHOUT_MATCH):
            found = await self._entries(ListScope(query, now, place))
            records, unreadable = await self.read(dict.fromkeys(entry.task for entry in found.entries))
            corrupt |= found.corrupt | {error.row_key: error for error in unreadable}
            shown = [each for each in records if matches(query, each, now)]
            place = found.place
            if shown or place is None or not found.entries:
                break
        return TaskPage(
            tasks=[TaskLine.of(record) for record in shown],
            cursor=None if place is None else place.text,
            looked_to=None if place is None else place.at,
            more=found.more,
            corrupt=[CorruptRow.model_validate(error) for error in corrupt.values()],
        )

    async def _entries(self, scope: ListScope) -> _Found:
        """Return the entries of one page."""
        is_newest_first = scope.query.order is Sorting.NEWEST
        found = await (self._merged(scope) if is_newest_first else self._sorted(scope))
        if len(found.entries) <= MOST_PER_PAGE:
            return found
        place = scope.cursor(found.entries[MOST_PER_PAGE - 1])
        return replace(found, entries=found.entries[:MOST_PER_PAGE], place=place)

    async def _sorted(self, scope: ListScope) -> _Found:
        """Read the first rows of all shards, and sort them."""
        pages = await self._pages([each for queries in scope.queries() for each in queries], ROWS_PER_REQUEST)
        entries = scope.select(each for page in pages for each in page.entries)
        more = any(page.cursor is not None for page in pages)
        return _Found(entries, None, more, {row.row_key: row for page in pages for row in page.corrupt})

    async def _merged(self, scope: ListScope) -> _Found:
        """Merge the pages of all shards. Entries behind the end of one page come in the next round.

        The rows of unfinished tasks are read once.
        """
        entries: list[ListedTask] = []
        unfinished = await self._pages(scope.queries()[0], ROWS_PER_REQUEST)
        more = any(page.cursor is not None for page in unfinished)
        corrupt = {row.row_key: row for page in unfinished for row in page.corrupt}
        for _ in range(_MERGED_ROUNDS):
            pages = await self._pages(scope.queries()[1], _MERGED_ROWS)
            corrupt |= {row.row_key: row for page in pages for row in page.corrupt}
            found = [each for page in (*unfinished, *pages) for each in page.entries]
            ends = [page.entries[-1] for page in pages if page.cursor is not None]
            if not ends:
                return _Found([*entries, *scope.select(found)], None, more, corrupt)
            end = min(ends, key=scope.rank)
            entries += scope.select(each for each in found if scope.rank(each) <= scope.rank(end))
            scope = replace(scope, place=scope.cursor(end))
            if len(entries) > MOST_PER_PAGE:
                break
        return _Found(entries, scope.place, more, corrupt)

    async def _pages(self, queries: Sequence[RowQuery], most: int) -> list[EntryPage[ListedTask]]:
        limited = [replace(query, most=most) for query in queries]
        shards = range(self._storage.shards)
        reads = (read_shard(self._storage, each, query) for query in limited for each in shards)
        return await asyncio.gather(*reads)


async def read_shard(storage: TaskStorage, shard: int, query: RowQuery) -> EntryPage[ListedTask]:
    """Return the next page of a shard with an entry, or the last page."""
    corrupt: list[CorruptRowError] = []
    while True:
        page = await read_entries(storage.table, shard_name(shard), query, listed_task)
        corrupt += page.corrupt
        if page.entries or page.cursor is None:
            return replace(page, corrupt=corrupt)
        query = replace(query, beyond=page.cursor)
