"""Ends of tasks that are steps: a message, or the time that is over, has their parents hear of them."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from functions.pattern.children import children_over, end_of
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.store_ports import StateStore

_log = logging.getLogger(__name__)


class Parents:
    """Tells parents of the ends of their children; what follows must have started `start_within` that."""

    def __init__(self, store: StateStore, clock: Clock, start_within: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._start_within = start_within

    async def look(self, parent: TaskRecord) -> None:
        """Record the ends of children whose time is over, since a message may be lost. Raises as `tell`."""
        children = map(parent.child, children_over(parent, self._clock.now()))
        await asyncio.gather(*map(self._look_at, children))

    async def _look_at(self, child: TaskId) -> None:
        """Have a parent hear of a child; one that can't be read does not keep its parent."""
        try:
            await self.tell(child)
        except UnreadableError as damage:
            _log.warning("task %s: its parent goes on without its end (%s)", child, damage)

    async def tell(self, child: TaskId) -> None:
        """Have the parent of a task take its end, unless that has gone on since. Raises `TransientError`."""
        stored = await self._store.load(child)
        if stored is None or stored.record.order.parent is None:
            return
        end = end_of(stored.record, self._clock.now() + self._start_within)
        if end is None:
            return
        parent = stored.record.order.parent.task
        told = await self._store.change(parent, end)
        if isinstance(told, Refused):
            _log.info("task %s: the end of its task %s counts for nothing (%s)", parent, child, told.reason)
