"""Timers: messages that wait for their time, in one heap with one wake-up call."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable

from functions_local.durable.store import Message

#: Seconds after which the clock is looked at again in any case: it may have been set.
_LONGEST_SLEEP = 30.0
#: Heaps below this size are not worth tidying.
_SMALL = 1000


class Timers:
    """Delivers messages when they are due; never before, perhaps a little later."""

    def __init__(self, deliver: Callable[[Message], None], is_wanted: Callable[[Message], bool]) -> None:
        self._deliver = deliver
        self._is_wanted = is_wanted
        self._heap: list[tuple[float, int, Message]] = []
        self._tidy_at = _SMALL
        self._closed = False
        self._wake_up: asyncio.TimerHandle | None = None

    def arm(self, message: Message) -> None:
        """Let a message wait until it is due; after `close` it is dropped."""
        if self._closed:
            return
        heapq.heappush(self._heap, (message.due, message.number, message))
        if len(self._heap) > self._tidy_at:
            self._tidy()
        if self._heap[0][2] is message:
            self._sleep()

    def close(self) -> None:
        """Deliver nothing more."""
        self._closed = True
        self._heap.clear()
        if self._wake_up is not None:
            self._wake_up.cancel()

    def _tidy(self) -> None:
        """Drop the timers of finished instances, lest long ones pile up."""
        self._heap = [entry for entry in self._heap if self._is_wanted(entry[2])]
        heapq.heapify(self._heap)
        self._tidy_at = max(_SMALL, 2 * len(self._heap))

    def _sleep(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        if self._heap:
            delay = min(max(0.0, self._heap[0][0] - time.time()), _LONGEST_SLEEP)
            self._wake_up = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        now = time.time()
        while self._heap and self._heap[0][0] <= now:
            self._deliver(heapq.heappop(self._heap)[2])
        self._sleep()
