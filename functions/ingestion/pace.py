"""Holds a partition's next batch back until Schedulers have begun with the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.store_ports import StateStore

#: Tasks of a batch that are looked at: one that has begun is enough.
_MOST_LOOKED_AT = 3
#: Seconds between two looks: the first, and the longest to which it doubles.
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 2.0


class Pace:
    """Recording is several times faster than running, and tasks that wait too long are taken for lost.

    A batch waits `longest` at most, then goes on in any case: what is dead slows, it never stops.
    """

    def __init__(
        self,
        store: StateStore,
        clock: Clock,
        longest: timedelta,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._longest = longest
        self._sleep = sleep
        self._recorded: dict[str, list[TaskId]] = {}

    def recorded(self, partition: str, tasks: Sequence[TaskId]) -> None:
        """Remember what a batch of a partition has newly recorded."""
        last = len(tasks) - 1
        self._recorded[partition] = [tasks[index] for index in sorted({0, last // 2, last})] if tasks else []

    async def wait(self, partition: str) -> float:
        """Wait until one of those tasks has begun, or the time is over; give the seconds."""
        tasks = self._recorded.pop(partition, [])[:_MOST_LOOKED_AT]
        began_at = self._clock.now()
        pause = _FIRST_WAIT
        while tasks and not await self._any_begun(tasks):
            left = (began_at + self._longest - self._clock.now()).total_seconds()
            if left <= 0:
                break
            await self._sleep(min(pause, left))
            pause = min(_LONGEST_WAIT, 2 * pause)
        return (self._clock.now() - began_at).total_seconds()

    async def _any_begun(self, tasks: Sequence[TaskId]) -> bool:
        waits = await asyncio.gather(*map(self._store.awaits_first_turn, tasks), return_exceptions=True)
        for each in waits:
            if isinstance(each, BaseException) and not isinstance(each, TransientError):
                raise each
        return False in waits
