"""An event loop whose time passes at once when nothing is left to do, and clocks that go by it."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any

#: Seconds of each turn of the loop, so that time passes also where work never waits.
_TURN = 1e-5


class _VirtualTime(selectors.DefaultSelector):
    """Leaps to the time of the next timer, but really waits where a socket or a thread is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let the time pass, in seconds."""
        self.passed += _TURN
        began = time.monotonic()
        leaps = timeout and len(self.get_map()) == 1 and not self.threads  # the one is the loop's own
        ready = super().select(0 if leaps else timeout)
        if timeout and not (leaps and ready):
            # No further than to the next timer: a busy machine may wake this up long after it.
            self.passed += timeout if leaps else min(timeout, time.monotonic() - began)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time passes only while it waits: what a busy machine takes to compute takes no time here.

    The simulation's has no sockets and no threads, and is an error where nothing can ever happen again.
    """

    def __init__(self) -> None:
        self._virtual = _VirtualTime()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the time that has passed, in seconds."""
        return self._virtual.passed

    def run_in_executor[*Ts, ResultT](
        self, executor: Any, func: Callable[[*Ts], ResultT], *args: *Ts
    ) -> asyncio.Future[ResultT]:
        """Run `func` in a thread."""
        running = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        running.add_done_callback(self._end_thread)
        return running

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as asyncio
        """Wait for the threads at the end of a test."""
        self._virtual.threads += 1
        await super().shutdown_default_executor(timeout)

    def _end_thread(self, _: asyncio.Future[Any]) -> None:
        self._virtual.threads -= 1


def in_virtual_time[ResultT](work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` to its end."""
    return asyncio.run(work, loop_factory=VirtualLoop)
