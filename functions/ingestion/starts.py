"""Starts Schedulers for a whole batch, a bounded number of them at one time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.ports import SchedulerStarts


class BoundedStarts:
    """Starts of one invocation, which share a limit with those of other partitions."""

    def __init__(self, schedulers: SchedulerStarts, limit: asyncio.Semaphore) -> None:
        self._schedulers = schedulers
        self._limit = limit

    async def start(
        self, task: TaskId, epoch: Epoch, queued: Sequence[StepName], *, run: int | None = None
    ) -> None:
        """Start the instance of this run when there is a place."""
        async with self._limit:
            await self._schedulers.start(task, epoch, queued, run=run)
