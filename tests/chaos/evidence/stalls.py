"""Moments at which this process itself stood still: its proxies forwarded nothing, it served no call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from tests.chaos.injection.outages import Interval

_LOOK_EVERY = timedelta(seconds=0.05)
#: Shorter ones are no more than the skew that the application allows for.
_COUNTS_FROM = timedelta(seconds=0.1)


class Stalls:
    """Notes each time span in which the event loop did not come round."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._found: list[Interval] = []

    @property
    def found(self) -> Sequence[Interval]:
        """What there was so far."""
        return self._found

    async def watch(self) -> None:
        """Look until cancelled."""
        last = self._now()
        while True:
            await asyncio.sleep(_LOOK_EVERY.total_seconds())
            now = self._now()
            if now - last > _LOOK_EVERY + _COUNTS_FROM:
                self._found.append(Interval(last, now))
            last = now
