"""Looks up which events of a batch are recorded already: a replay then costs reads, and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from functions.ingestion.events import HubEvent
from functions.pattern.identity import TaskId
from functions.pattern.store_ports import KnownOrder, StateStore

#: Orders that are looked up at one time.
_AT_ONCE = 64
#: Bytes that are parsed before others get a turn.
_TURN_BYTES = 64 * 1024


class KnownOrders:
    """Looks first where a replay is likely: a partition's first batch here, and after one with a known id."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._new_only: set[str] = set()

    def learned(self, partition: str, *, all_new: bool) -> None:
        """Hear whether all of a partition's latest batch was new: then the next is taken for new, as well."""
        if all_new:
            self._new_only.add(partition)
        else:
            self._new_only.discard(partition)

    async def among(self, partition: str, events: Sequence[HubEvent]) -> Mapping[TaskId, KnownOrder]:
        """Find those of a batch that are recorded. What can't be told now is left to its admission."""
        if partition in self._new_only:
            return {}
        limit = asyncio.Semaphore(_AT_ONCE)
        named = await _named(events)
        found = await asyncio.gather(*(self._look_up(task, limit) for task in named))
        return {task: order for task, order in zip(named, found, strict=True) if order is not None}

    async def _look_up(self, task: TaskId, limit: asyncio.Semaphore) -> KnownOrder | None:
        async with limit:
            try:
                return await self._store.order(task)
            except Exception:  # noqa: BLE001 - whatever is wrong with its row
                return None


async def _named(events: Sequence[HubEvent]) -> set[TaskId]:
    """Read which tasks a batch names."""
    named, parsed = set[TaskId](), 0
    for event in events:
        task = event.task
        if task is not None:
            named.add(task)
        parsed += len(event.body)
        if parsed >= _TURN_BYTES:
            parsed = 0
            await asyncio.sleep(0)
    return named
