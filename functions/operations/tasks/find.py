"""Finds tasks for operators: one by its id, or some by their index entries or ids; never all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus

from functions.operations.tasks.listing import MOST_PER_PAGE, Listing, Part
from functions.operations.tasks.query import ListQuery
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Stored
from functions.web.problems import ProblemError


class Tasks:
    """Finds tasks. Index entries are hints: each task is read before it is shown.

    So a page can have fewer tasks than fit, even none, while the list goes on.
    """

    def __init__(self, ports: Ports) -> None:
        self._store = ports.store
        self._index = ports.index
        self._listing = Listing(ports)

    async def find(self, task: TaskId) -> Stored:
        """Read one task. Raises `ProblemError` 404 when there is none, and `TransientError`."""
        stored = await self._store.load(task)
        if stored is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "No task is recorded under this id.")
        return stored

    async def page(self, query: ListQuery) -> Part[TaskRecord]:
        """Read a page of at most 50 tasks. Raises `TransientError`, and `ProblemError` 422."""
        if query.prefix is not None:
            return await self._named(query.prefix, query.state, query.workflow)
        found = await self._listing.page(query)
        records = await self._records(entry.task for entry in found.items)
        shown = tuple(each for each in records if each.task.process_state is query.listed_state)
        return Part(shown, found.next, found.more)

    async def _named(self, prefix: str, state: ProcessState | None, workflow: str | None) -> Part[TaskRecord]:
        """Read up to 50 tasks by their ids; `more` says that a longer prefix finds others."""
        shards = range(self._index.shards)
        reads = (self._index.named(prefix, shard, most=MOST_PER_PAGE + 1) for shard in shards)
        found = {task for ids in await asyncio.gather(*reads) for task in ids}
        ids = sorted({TaskId(prefix), *found})  # the task of just that name, too, however many follow
        records = (await self._records(ids[: MOST_PER_PAGE + 1]))[:MOST_PER_PAGE]
        shown = (each for each in records if workflow in {None, each.order.workflow})
        in_state = (each for each in shown if state in {None, each.task.process_state})
        return Part(tuple(in_state), more=len(found) > MOST_PER_PAGE)

    async def _records(self, tasks: Iterable[TaskId]) -> list[TaskRecord]:
        read = await asyncio.gather(*map(self._store.load, tasks))
        return [stored.record for stored in read if stored is not None]
