"""Scheduling in memory: lanes, which retry after an error in the host, and timers."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable

from functions_local.durable.store import InstanceMessage

_log = logging.getLogger(__name__)

#: Seconds before the first retry; doubled for each further one.
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 30.0
#: Seconds after which the clock is read again: it may have been set.
_LONGEST_SLEEP = 30.0
#: Heaps below this size are not pruned.
_SMALL = 1000


class Lane[Work]:
    """Runs a limited number of work items at once and queues the rest. The database has them all, too.

    `put` starts the work in the caller's iteration of the event loop, up to its first wait: an idle engine
    has no delay between a commit and the next work.
    """

    def __init__(self, name: str, limit: int, run: Callable[[Work], Awaitable[None]]) -> None:
        self._name = name
        self._limit = limit
        self._run = run
        self._waiting: deque[tuple[Work, float]] = deque()
        self._runners: set[asyncio.Task[None]] = set()
        self._at_work = 0
        # A function's context variables must not reach the work that starts at its end.
        self._context = contextvars.copy_context()
        self._closed = False

    def put(self, work: Work, retry_delay: float = _FIRST_DELAY) -> None:
        """Run work, or queue it while the limit is reached; after `close` it is dropped."""
        if self._closed:
            return
        self._waiting.append((work, retry_delay))
        if self._at_work < self._limit:
            self._start_runner()

    async def close(self, grace: float) -> None:
        """Accept no more work, and wait at most `grace` seconds for running work."""
        self._closed = True
        self._waiting.clear()
        if not self._runners:
            return
        _, running = await asyncio.wait(self._runners, timeout=grace)
        for runner in running:
            runner.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _start_runner(self) -> None:
        runner = asyncio.Task(
            self._work(),
            loop=asyncio.get_running_loop(),
            name=f"durable-{self._name}",
            context=self._context.copy(),
            eager_start=True,
        )
        if not runner.done():
            self._runners.add(runner)
            runner.add_done_callback(self._runners.discard)

    async def _work(self) -> None:
        self._at_work += 1
        try:
            while self._waiting:
                work, retry_delay = self._waiting.popleft()
                await self._try(work, retry_delay)
        finally:
            self._at_work -= 1

    async def _try(self, work: Work, retry_delay: float) -> None:
        try:
            await self._run(work)
        except Exception:  # noqa: BLE001 - any error in the host is logged and retried
            _log.exception(
                "The %s failed because of an error in the host; retrying in %.1f s", self._name, retry_delay
            )
            next_delay = min(2 * retry_delay, _LONGEST_DELAY)
            asyncio.get_running_loop().call_later(retry_delay, self.put, work, next_delay)


class Timers:
    """Delivers messages when they are due or shortly after, never earlier."""

    def __init__(
        self, deliver: Callable[[InstanceMessage], None], is_live: Callable[[InstanceMessage], bool]
    ) -> None:
        self._deliver = deliver
        self._is_live = is_live
        self._heap: list[tuple[float, int, InstanceMessage]] = []
        self._prune_at = _SMALL
        self._closed = False
        self._wake_up: asyncio.TimerHandle | None = None

    def arm(self, message: InstanceMessage) -> None:
        """Deliver a message when it is due; after `close` it is dropped."""
        if self._closed:
            return
        heapq.heappush(self._heap, (message.due, message.number, message))
        if len(self._heap) > self._prune_at:
            self._prune()
        if self._heap[0][2] is message:
            self._sleep()

    def close(self) -> None:
        """Deliver nothing more."""
        self._closed = True
        self._heap.clear()
        if self._wake_up is not None:
            self._wake_up.cancel()

    def _prune(self) -> None:
        """Drop the timers of finished instances, so that long timers do not accumulate."""
        self._heap = [entry for entry in self._heap if self._is_live(entry[2])]
        heapq.heapify(self._heap)
        self._prune_at = max(_SMALL, 2 * len(self._heap))

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
