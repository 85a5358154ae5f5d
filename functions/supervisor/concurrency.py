"""Work on many things side by side, but not on all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable


async def for_each[ItemT](
    items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[None]], *, at_once: int
) -> None:
    """Do `work` for every item, for `at_once` of them at a time; when one raises, the rest is cancelled."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: ItemT) -> None:
        async with gate:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))
