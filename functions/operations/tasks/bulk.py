"""One action on all tasks that a filter selects: a page of them at each request, whoever asks for the next.

Nothing of it is kept: who is interrupted goes on from the last cursor, or begins again. What was done before
has begun another epoch since the count, and is not selected again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from functions.operations.tasks.actions import Actions, Asked, Wish
from functions.operations.tasks.listing import Tasks
from functions.operations.tasks.query import Filter
from functions.operations.tasks.selection import Selection
from functions.operations.tasks.views import ActionTaken, UnreadableRow
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.store_ports import Stored
from functions.pattern.waiting import within
from functions.web.problems import problem_of

#: Seconds in which the tasks of a page are done, or told as not known: the caller's patience is longer.
_LONGEST = 10

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
        counted = await selection.count()
        return BulkCount(count=counted.count, more=counted.more, exact=selection.is_exact, at=now)

    async def _looked_at(self, selection: Selection) -> int | None:
        """Count by the tasks themselves, if they are few; None for many."""
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
            done=_of(ActionTaken, outcomes),
            refused=_of(NotDone, outcomes),
            passed_over=len(tasks) - len(chosen) - len(damaged),
            unreadable=[UnreadableRow.model_validate(row) for row in rows.values()],
            cursor=page.cursor,
        )

    async def _outcome(
        self, slots: asyncio.Semaphore, stored: Stored, wish: Wish, asked: Asked
    ) -> ActionTaken | NotDone:
        task = stored.record.order.task
        try:
            return await within(_LONGEST, self._take(slots, stored, wish, asked))
        except TransientError:
            return NotDone(id=task, reason="No answer in time: it may have been done all the same.")
        except Exception as error:  # noqa: BLE001 - a task fails alone, whatever is wrong with it
            told = problem_of(error, doing=f"{wish.action} of task {task}")
            faults = [f"{fault.field}: {fault.reason}" for fault in told.errors or ()]
            return NotDone(id=task, reason="; ".join(faults) or told.detail or told.title)

    async def _take(self, slots: asyncio.Semaphore, stored: Stored, wish: Wish, asked: Asked) -> ActionTaken:
        async with slots:
            return ActionTaken.model_validate(await self._actions.take(stored, wish, asked))


def _of[OutcomeT](kind: type[OutcomeT], outcomes: Sequence[object]) -> list[OutcomeT]:
    return [each for each in outcomes if isinstance(each, kind)]
