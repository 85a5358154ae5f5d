"""A lane: runs queued work, so much of it at a time, and tries again what a fault of the host broke."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

#: Seconds before the first new try; doubled for each further one.
_FIRST_DELAY = 0.1
#: Seconds that no delay exceeds.
_LONGEST_DELAY = 30.0


class Lane[Work]:
    """A queue in memory with a fixed number of workers. Its work is kept elsewhere, so it may be dropped."""

    def __init__(self, name: str, workers: int, run: Callable[[Work], Awaitable[None]]) -> None:
        self._name = name
        self._run = run
        self._queue: asyncio.Queue[tuple[Work, float]] = asyncio.Queue()
        self._workers = [asyncio.create_task(self._work(), name=f"durable-{name}") for _ in range(workers)]

    def put(self, work: Work, retry_delay: float = _FIRST_DELAY) -> None:
        """Queue work; after `close` it is dropped."""
        with contextlib.suppress(asyncio.QueueShutDown):
            self._queue.put_nowait((work, retry_delay))

    async def close(self, grace: float) -> None:
        """Take no more work and give what runs `grace` seconds to end."""
        self._queue.shutdown(immediate=True)
        _, running = await asyncio.wait(self._workers, timeout=grace)
        for worker in running:
            worker.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _work(self) -> None:
        with contextlib.suppress(asyncio.QueueShutDown):
            while True:
                work, retry_delay = await self._queue.get()
                await self._try(work, retry_delay)

    async def _try(self, work: Work, retry_delay: float) -> None:
        try:
            await self._run(work)
        except Exception:
            logger.exception("The %s failed inside the host; tried again in %.1f s", self._name, retry_delay)
            next_delay = min(2 * retry_delay, _LONGEST_DELAY)
            asyncio.get_running_loop().call_later(retry_delay, self.put, work, next_delay)
