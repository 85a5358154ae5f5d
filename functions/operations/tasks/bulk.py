"""One action on all tasks that a filter selects, by page; an interrupted caller repeats its cursor."""

from __future__ import annotations

import asyncio
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.operations.tasks.actions import Actions, Asked, Wish
from functions.operations.tasks.listing import MOST_PER_PAGE, ROWS_PER_REQUEST, Tasks, read_under_way
from functions.operations.tasks.query import (
    CLOCK_SKEW,
    UNDER_WAY,
    Filter,
    ListQuery,
    Source,
    Wanted,
    accepts,
    wrong_field,
)
from functions.operations.tasks.views import ActionTaken, UnreadableRow
from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import search_key
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import IndexEntry, IndexPage, Stored
from functions.pattern.waiting import within
from functions.web.problems import problem_of

#: Requests of one page: shards can be empty, and a filter can refuse many tasks.
_MOST_READS = 40

#: Rows that are counted at most, over all shards.
_MOST_ROWS_COUNTED = 10_000

type _Reading = Callable[..., Awaitable[IndexPage]]


class _Place(BaseModel):
    """A page's place in the selection that it is `of`: source, shard, key; callers get it as a text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: int
    source: Annotated[int, Field(ge=0)] = 0
    shard: Annotated[int, Field(ge=0)] = 0
    after: str | None = None

    def text(self) -> str:
        return urlsafe_b64encode(self.model_dump_json(exclude_none=True).encode()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class SelectedPage:
    """Entries that may be selected, damaged rows, and where the next page begins (None: nowhere)."""

    entries: tuple[IndexEntry, ...]
    cursor: str | None
    unreadable: tuple[UnreadableError, ...]


class Selection:
    """The tasks that a filter selects as of `before`: ages are as of then, and later ends are left out.

    It is read by shard, in the order of the index's keys: an entry that leaves the index moves no other, and
    one that enters it lies before the cursor, or is too new.
    """

    def __init__(self, ports: Ports, asked: Filter, before: datetime) -> None:
        """Raise `ProblemError` 422 for a time to come: what is acted on then would be selected again."""
        if before > ports.clock.now() + CLOCK_SKEW:
            raise wrong_field("before", "is still to come")
        query = ListQuery.model_validate(asked.model_dump())
        self._index = ports.index
        self._asked = asked
        self._before = before
        self._mark = zlib.crc32(f"{asked.model_dump_json()} {before.isoformat()}".encode())
        self._wanted = Wanted(query, before, None, query.sources[0])

    @property
    def is_exact(self) -> bool:
        """Tell whether the index tells all that is asked for; if not, some entries may not be meant."""
        asked, state = self._asked, self._asked.listed_state
        if self._wanted.source is not Source.TIME:
            return False
        needs_task = asked.step is not None or asked.error is not None
        return state is ProcessState.ERROR or (
            (asked.parked or state in {ProcessState.PROCESSED, ProcessState.COMPENSATED}) and not needs_task
        )

    def has(self, record: TaskRecord) -> bool:
        """Tell whether a task is selected: one of which another epoch has begun since then is not."""
        at = record.task.finished_at or record.order.submitted_at
        began_at = record.history[-1].ended_at if record.history else record.order.submitted_at
        return max(at, began_at) <= self._before and accepts(self._asked, record, self._before)

    async def page(self, cursor: str | None) -> SelectedPage:
        """Read some 50 entries, even none. Raises `TransientError`, `ProblemError` 422 (cursor)."""
        found: list[IndexEntry] = []
        damaged: list[UnreadableError] = []
        try:
            place: _Place | None = self._place(cursor)
            for _ in range(_MOST_READS):
                if place is None or len(found) >= MOST_PER_PAGE:
                    break
                page = await self._read(place, MOST_PER_PAGE - len(found))
                found += filter(self._wanted.may_take, page.entries)
                damaged += page.unreadable
                place = self._behind(place, page.continuation)
        except (ValueError, IndexError):
            raise wrong_field("cursor", "not a cursor of this selection") from None
        return SelectedPage(tuple(found), None if place is None else place.text(), tuple(damaged))

    async def count(self) -> tuple[int, bool]:
        """Count up to 10,000 rows, or a request a shard; return whether there are more."""
        shards = range(self._index.shards)
        counts = await asyncio.gather(
            *(self._count(read, each) for read in self._readings for each in shards)
        )
        return sum(count for count, _ in counts), any(more for _, more in counts)

    async def _count(self, read: _Reading, shard: int) -> tuple[int, bool]:
        count, after = 0, None
        for _ in range(max(1, _MOST_ROWS_COUNTED // (ROWS_PER_REQUEST * self._index.shards))):
            page = await read(shard, after=after, most=ROWS_PER_REQUEST)
            count += sum(map(self._wanted.may_take, page.entries))
            after = page.continuation
            if after is None:
                break
        return count, after is not None

    async def _read(self, place: _Place, most: int) -> IndexPage:
        if place.shard >= self._index.shards:
            raise IndexError(place.shard)
        return await self._readings[place.source](place.shard, after=place.after, most=most)

    def _place(self, cursor: str | None) -> _Place:
        if cursor is None:
            return _Place(of=self._mark)
        place = _Place.model_validate_json(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if place.of != self._mark:
            raise ValueError(place.of)
        return place

    def _behind(self, place: _Place, continuation: str | None) -> _Place | None:
        if continuation is not None:
            return place.model_copy(update={"after": continuation})
        if place.shard + 1 < self._index.shards:
            return _Place(of=place.of, source=place.source, shard=place.shard + 1)
        is_last = place.source + 1 == len(self._readings)
        return None if is_last else _Place(of=place.of, source=place.source + 1)

    @property
    def _readings(self) -> list[_Reading]:
        wanted, asked = self._wanted, self._asked
        since, until = wanted.bounds()
        ended: dict[str, Any] = {"since": since, "until": min(until, self._before + timedelta.resolution)}
        match wanted.source:
            case Source.TEXT:
                return [partial(self._index.found, search_key(asked.find or ""), **ended)]
            case Source.NAME:
                return [partial(self._index.named, asked.prefix or "")]
            case Source.TIME:
                return [
                    partial(read_under_way, self._index, each)
                    if each in UNDER_WAY
                    else partial(self._index.page, each, **ended)
                    for each in wanted.indexes
                ]


#: Seconds for one task of a page; after them, its outcome is unknown. The caller's timeout is longer.
_TASK_SECONDS = 10

#: Pages of tasks that are read for a count, where the index does not tell all.
_PAGES_LOOKED_AT = 4


class NotDone(BaseModel):
    """A task that did not take the action, and why."""

    id: TaskId
    reason: str


class BulkPage(BaseModel):
    """What came of the action for some of the tasks; `cursor` asks for the next, null when all were tried.

    `passed_over` counts index entries whose tasks are not selected, or no more, when they are looked at.
    """

    done: list[ActionTaken]
    refused: list[NotDone]
    passed_over: int
    unreadable: list[UnreadableRow]
    cursor: str | None


class BulkCount(BaseModel):
    """How many tasks a filter selects as of `at`; with `more`, at least so many.

    Many are counted by the index: if that is not `exact`, some of these may turn out not to be meant.
    """

    count: int
    more: bool
    exact: bool
    at: datetime


class Bulk:
    """Counts what a filter selects, and acts on it."""

    def __init__(self, ports: Ports, tasks: Tasks, actions: Actions) -> None:
        self._ports = ports
        self._tasks = tasks
        self._actions = actions

    async def count(self, asked: Filter) -> BulkCount:
        """Count the tasks. Raises `TransientError`."""
        now = self._ports.clock.now()
        selection = Selection(self._ports, asked, now)
        looked_at = None if selection.is_exact else await self._looked_at(selection)
        if looked_at is not None:
            return BulkCount(count=looked_at, more=False, exact=True, at=now)
        count, more = await selection.count()
        return BulkCount(count=count, more=more, exact=selection.is_exact, at=now)

    async def _looked_at(self, selection: Selection) -> int | None:
        count, cursor = 0, None
        for _ in range(_PAGES_LOOKED_AT):
            page = await selection.page(cursor)
            found, _ = await self._tasks.each(dict.fromkeys(entry.task for entry in page.entries))
            count, cursor = count + sum(selection.has(each.record) for each in found), page.cursor
            if cursor is None:
                return count
        return None

    async def act(self, selection: Selection, cursor: str | None, wish: Wish, asked: Asked) -> BulkPage:
        """Act on up to 50 tasks, each for itself. Raises `TransientError`, and `ProblemError` 422."""
        page = await selection.page(cursor)
        tasks = dict.fromkeys(entry.task for entry in page.entries)
        found, damaged = await self._tasks.each(tasks)
        chosen = [stored for stored in found if selection.has(stored.record)]
        slots = asyncio.Semaphore(16)  # their transactions share groups, and others have room beside
        outcomes = await asyncio.gather(*(self._outcome(slots, stored, wish, asked) for stored in chosen))
        rows = {row.key: row for row in (*page.unreadable, *damaged)}
        return BulkPage(
            done=[each for each in outcomes if isinstance(each, ActionTaken)],
            refused=[each for each in outcomes if isinstance(each, NotDone)],
            passed_over=len(tasks) - len(chosen) - len(damaged),
            unreadable=[UnreadableRow.model_validate(row) for row in rows.values()],
            cursor=page.cursor,
        )

    async def _outcome(
        self, slots: asyncio.Semaphore, stored: Stored, wish: Wish, asked: Asked
    ) -> ActionTaken | NotDone:
        task = stored.record.order.task
        try:
            return await within(_TASK_SECONDS, self._take(slots, stored, wish, asked))
        except TransientError:
            return NotDone(id=task, reason="No answer in time: it may have been done all the same.")
        except Exception as error:  # noqa: BLE001 - a task fails alone, whatever is wrong with it
            told = problem_of(error, doing=f"{wish.action} of task {task}")
            faults = [f"{fault.field}: {fault.reason}" for fault in told.errors or ()]
            return NotDone(id=task, reason="; ".join(faults) or told.detail or told.title)

    async def _take(self, slots: asyncio.Semaphore, stored: Stored, wish: Wish, asked: Asked) -> ActionTaken:
        async with slots:
            return ActionTaken.model_validate(await self._actions.take(stored, wish, asked))
