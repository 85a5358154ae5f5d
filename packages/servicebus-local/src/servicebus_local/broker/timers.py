"""The broker's time: the clock, and timers for locks, times to live and scheduled messages.

One heap holds all timers, and the event loop wakes up for the earliest. A cancelled timer releases its action
at once, and cancelled timers are removed when they are the majority: most messages are completed long before
a time to live of days ends.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)

#: Service Bus' end of time, 9999-12-31: a message that expires later never expires.
END_OF_TIME_MS = 253402300799999
_MIN_SWEEP = 64


def now_ms() -> int:
    """Return the time of day in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class Timer:
    """One action at one time. It runs at most once."""

    __slots__ = ("_timers", "action", "arguments")

    def __init__(self, timers: TimerHeap, action: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self._timers = timers
        self.action: Callable[..., object] | None = action
        self.arguments = arguments

    def cancel(self) -> None:
        """Prevent the action; without effect if it has run already."""
        if self.action is not None:
            self.action = None
            self.arguments = ()
            self._timers.count_cancelled()


class TimerHeap:
    """All timers of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0
        self._wake_up: asyncio.TimerHandle | None = None
        self._wake_up_ms = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, when_ms: int, action: Callable[..., object], *arguments: Any) -> Timer:
        """Run an action at a time of day (milliseconds since 1970), or at once if the time has passed."""
        timer = Timer(self, action, arguments)
        heapq.heappush(self._heap, (when_ms, next(self._order), timer))
        if self._wake_up is None or when_ms < self._wake_up_ms:
            self._wake_at(when_ms)
        return timer

    def after(self, delay_ms: int, action: Callable[..., object], *arguments: Any) -> Timer:
        """Run an action after `delay_ms`."""
        return self.at(now_ms() + delay_ms, action, *arguments)

    def close(self) -> None:
        """Drop all timers."""
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._heap.clear()

    def count_cancelled(self) -> None:
        """Count a timer that will not run, and remove all of them when they are the majority."""
        self._cancelled += 1
        if self._cancelled > _MIN_SWEEP and self._cancelled > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _wake_at(self, when_ms: int) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._wake_up_ms = when_ms
        # One extra millisecond: when the action runs, its time must have passed.
        delay = max(0, when_ms - now_ms()) / 1000 + 0.001
        self._wake_up = self._loop.call_later(delay, self._run_due)

    def _run_due(self) -> None:
        self._wake_up = None
        now = now_ms()
        while self._heap and self._heap[0][0] <= now:
            _, _, timer = heapq.heappop(self._heap)
            action, arguments = timer.action, timer.arguments
            if action is None:
                self._cancelled -= 1
                continue
            timer.action = None
            try:
                action(*arguments)
            except Exception:  # noqa: BLE001 - the other timers must run
                _log.exception("A timer's action failed")
        if self._heap:  # an action may have scheduled a wake-up later than the earliest timer
            self._wake_at(self._heap[0][0])
