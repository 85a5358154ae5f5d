"""Finds tasks for operators: one by its id, or those of a list, each judged by its record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus

from functions.operations.tasks.listing import Found, Listing
from functions.operations.tasks.query import ListQuery
from functions.operations.tasks.wanted import accepts
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Stored
from functions.web.problems import ProblemError

#: Pages whose tasks are read for one request, until some are what is sought.
_MOST_PAGES = 4


class Tasks:
    """Finds tasks. Index entries are hints: each task is read before it is shown.

    So a page can have fewer tasks than fit, even none, while the list goes on.
    """

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

    async def seen(self, task: TaskId, epoch: Epoch | None) -> Stored:
        """Read one task that is in the epoch in which somebody saw it; None stands for any.

        Raises as `find` does, and `ProblemError` 409 for another epoch.
        """
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
        """Read a page of some 50 tasks. Raises `TransientError`, and `ProblemError` 422.

        The task whose id is the prefix comes first of all, however many have longer ids.
        """
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
        """Read on while entries only seemed to be what is sought, for a bounded number of pages."""
        damaged: tuple[UnreadableError, ...] = ()
        for _ in range(_MOST_PAGES if query.looks_into_tasks else 1):
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
