"""One action on all tasks that a filter selects, page by page. An interrupted caller repeats its cursor.

Times are UTC.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from functions.core.record import TaskRecord
from functions.http.access import Caller
from functions.http.problems import problem_of
from functions.operators.task_actions import Action, TaskActions
from functions.operators.task_list import (
    MOST_PER_PAGE,
    ROWS_PER_REQUEST,
    CorruptRow,
    Cursor,
    ListQuery,
    ListScope,
    TaskFilter,
    TaskLine,
    TaskList,
    as_problem,
    matches,
    wrong_field,
)
from functions.storage.index_pages import EntryPage, ListedTask, listed_task, read_entries
from functions.storage.row_keys import shard_name
from functions.storage.table_contract import CorruptRowError, RowQuery
from functions.storage.task_storage import TaskStorage

#: Requests of one page: shards may be empty, and a filter may reject many entries.
_MOST_READS = 40
#: Tasks that are read for a count if the index does not decide.
_MOST_READ_FOR_COUNT = 200
#: Seconds for one task of a page. After them, its outcome is unknown.
_TASK_SECONDS = 10
#: Tasks that are changed at once.
_TASKS_AT_ONCE = 16


class _Place(Cursor):
    """The place of a page in a selection: the number of a unit, and a key in it.

    Each shard of each query is one unit, and so are the unfinished tasks of a shard, with a task as key.
    """

    unit: Annotated[int, Field(ge=0)] = 0
    beyond: str | None = None


class Selection:
    """The tasks that a filter selects as of `before`; tasks that ended later are left out.

    It is read shard by shard in the order of the keys. An entry that leaves the index moves no other one. A
    new entry is before the cursor, or too new. The rows of unfinished tasks move, so they are sorted by task.
    """

    def __init__(self, storage: TaskStorage, asked: TaskFilter, before: datetime) -> None:
        query = ListQuery.model_validate(asked.model_dump())
        self._table, self._shards = storage.table, storage.shards
        self._asked, self._before = asked, before
        self._digest = zlib.crc32(f"{asked.model_dump_json()} {before.isoformat()}".encode())
        self._scope = ListScope(query, before, None)
        self._unfinished, self._queries = self._scope.queries()
        #: Each query has one unit for each shard. None: the unfinished tasks, sorted by task.
        self._parts = [None, *self._queries] if self._unfinished else self._queries
        self._units = self._shards * len(self._parts)

    def has(self, record: TaskRecord) -> bool:
        """Return whether a task is selected. One that ended, or that was acted on, after `before` is not."""
        at = max(filter(None, (record.finished_at or record.order.submitted_at, record.acted_at)))
        if self._asked.suspended and record.suspension is not None:
            at = max(at, record.suspension.since)
        return at <= self._before and matches(self._asked, record, self._before)

    async def page(self, cursor: str | None) -> EntryPage[ListedTask]:
        """Return up to 50 entries, or none and a cursor. Raises `ProblemError` 422 for another cursor."""
        entries: list[ListedTask] = []
        corrupt: list[CorruptRowError] = []
        place: _Place | None = (
            _Place(of=self._digest) if cursor is None else _Place.read(cursor, self._digest)
        )
        for _ in range(_MOST_READS):
            if place is None or place.unit >= self._units or len(entries) >= MOST_PER_PAGE:
                break
            page = await self._read(place.unit, place.beyond, MOST_PER_PAGE - len(entries))
            entries += filter(self._scope.may_match, page.entries)
            corrupt += page.corrupt
            unit = place.unit if page.cursor is not None else place.unit + 1
            place = None if unit == self._units else _Place(of=self._digest, unit=unit, beyond=page.cursor)
        return EntryPage(entries, None if place is None else place.text, corrupt)

    async def count(self) -> tuple[list[ListedTask], bool]:
        """Return the entries of up to 1,000 rows of each shard and query, and whether there are more."""
        queries = [replace(each, most=ROWS_PER_REQUEST) for each in (*self._unfinished, *self._queries)]
        read = (self._rows(shard, query) for query in queries for shard in range(self._shards))
        pages = await asyncio.gather(*read)
        entries = (entry for page in pages for entry in page.entries)
        return [*filter(self._scope.may_match, entries)], any(page.cursor is not None for page in pages)

    async def _read(self, unit: int, beyond: str | None, most: int) -> EntryPage[ListedTask]:
        number, shard = divmod(unit, self._shards)
        query = self._parts[number]
        if query is None:
            return await self._by_task(shard, beyond, most)
        return await self._rows(shard, replace(query, beyond=beyond, most=most))

    async def _by_task(self, shard: int, beyond: str | None, most: int) -> EntryPage[ListedTask]:
        """Return the next unfinished tasks that may match, from all rows of a shard."""
        pages = [await self._rows(shard, query, is_whole=True) for query in self._unfinished]
        found = {each.task: each for page in pages for each in page.entries if self._scope.may_match(each)}
        tasks = sorted(task for task in found if beyond is None or task > beyond)
        last = tasks[most - 1] if len(tasks) > most else None
        corrupt = [error for page in pages for error in page.corrupt if beyond is None]
        return EntryPage([found[task] for task in tasks[:most]], last, corrupt)

    async def _rows(self, shard: int, query: RowQuery, *, is_whole: bool = False) -> EntryPage[ListedTask]:
        return await read_entries(self._table, shard_name(shard), query, listed_task, is_whole=is_whole)


class NotTaken(BaseModel):
    """A task that did not accept the action, and why."""

    id: str
    reason: str


class BulkPage(BaseModel):
    """The outcomes of some tasks. `cursor` is for the next page, null when the action reached all tasks.

    `passed_over` counts index entries whose tasks are not selected any more.
    """

    done: list[TaskLine]
    rejected: list[NotTaken]
    passed_over: int
    corrupt: list[CorruptRow]
    cursor: str | None


class BulkCount(BaseModel):
    """The number of tasks that a filter selects as of `at`; with `more`, there are more than `count`.

    Many tasks are counted by the index. If that is not `exact`, some of them may not match the filter.
    """

    count: int
    more: bool
    exact: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class BulkActions:
    """Counts the tasks of a selection, and acts on them. Its methods raise `TransientStorageError`."""

    actions: TaskActions
    tasks: TaskList

    async def count(self, asked: TaskFilter) -> BulkCount:
        """Count the tasks that match a filter. Up to 200 are read if the index does not decide."""
        now = self.actions.now()
        selection = Selection(self.actions.storage, asked, now)
        entries, more = await selection.count()
        count, is_exact = len(entries), asked.is_exact
        if not (more or is_exact) and count <= _MOST_READ_FOR_COUNT:
            records, _ = await self.tasks.read(dict.fromkeys(entry.task for entry in entries))
            count, is_exact = sum(map(selection.has, records)), True
        return BulkCount(count=count, more=more, exact=is_exact, at=now)

    async def select(self, asked: TaskFilter, before: datetime) -> Selection:
        """Return the selection of a filter as of `before`. Raises `ProblemError` 422 for a time to come.

        The clock of the instance that returned the time may be ahead, so the request waits until `before`.
        Without the wait, its repetition would select tasks that ended after the first request.
        """
        lead = before - self.actions.now()
        if lead > self.actions.settings.skew:
            raise wrong_field("before", "the time is still to come")
        await asyncio.sleep(lead.total_seconds())
        return Selection(self.actions.storage, asked, before)

    async def act(
        self, selection: Selection, cursor: str | None, action: Action, caller: Caller, reason: str
    ) -> BulkPage:
        """Act on up to 50 tasks, each of which fails alone. Raises `ProblemError` 422."""
        page = await selection.page(cursor)
        tasks = dict.fromkeys(entry.task for entry in page.entries)
        records, unreadable = await self.tasks.read(tasks)
        chosen = [record for record in records if selection.has(record)]
        slots = asyncio.Semaphore(_TASKS_AT_ONCE)
        work = (self._outcome(slots, each, action, caller, reason) for each in chosen)
        outcomes = await asyncio.gather(*work)
        rows = {row.row_key: row for row in (*page.corrupt, *unreadable)}
        return BulkPage(
            done=[each for each in outcomes if isinstance(each, TaskLine)],
            rejected=[each for each in outcomes if isinstance(each, NotTaken)],
            passed_over=len(tasks) - len(chosen) - len(unreadable),
            corrupt=[CorruptRow.model_validate(row) for row in rows.values()],
            cursor=page.cursor,
        )

    async def _outcome(
        self, slots: asyncio.Semaphore, record: TaskRecord, action: Action, caller: Caller, reason: str
    ) -> TaskLine | NotTaken:
        task = record.order.task
        try:
            async with slots, asyncio.timeout(_TASK_SECONDS):
                return TaskLine.of(await self.actions.take(record, action, caller, reason))
        except Exception as error:  # noqa: BLE001 - a task fails alone
            found = problem_of(as_problem(error), doing=f"{action.name} of task {task}")
            faults = [f"{fault.field}: {fault.reason}" for fault in found.errors or ()]
            return NotTaken(id=task, reason="; ".join(faults) or found.detail or found.title)
