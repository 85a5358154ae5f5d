"""Something that is shown to many and read for all of them at once, every few seconds at most."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from functions.pattern.ports import Clock


class Remembered[ValueT]:
    """Gives what was read less than `seconds` ago, or reads it; who asks meanwhile waits for that reading."""

    def __init__(self, read: Callable[[], Awaitable[ValueT]], *, seconds: float, clock: Clock) -> None:
        self._read = read
        self._keep = timedelta(seconds=seconds)
        self._clock = clock
        self._reading = asyncio.Lock()
        self._kept: ValueT | None = None
        self._until = clock.now()

    async def get(self) -> ValueT:
        """Give it. Raises what the reading raises; the next one to ask reads again."""
        async with self._reading:
            if self._kept is None or self._clock.now() >= self._until:
                self._kept = await self._read()
                self._until = self._clock.now() + self._keep
            return self._kept
