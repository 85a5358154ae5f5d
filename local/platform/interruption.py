"""Work that something else can interrupt: a part that fails, or the developer's Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import NoReturn

#: The exit code of what was stopped before its own end, as shells have it for Ctrl-C.
INTERRUPTED = 130

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def unless[Result](interruption: Coroutine[None, None, NoReturn], work: Awaitable[Result]) -> Result:
    """Return the result of `work`, or raise what `interruption` raises if that comes first; end the other."""
    working = asyncio.ensure_future(work)
    interrupting = asyncio.create_task(interruption)
    try:
        await asyncio.wait({working, interrupting}, return_when=asyncio.FIRST_COMPLETED)
        return interrupting.result() if not working.done() else working.result()
    finally:
        working.cancel()
        interrupting.cancel()
        await asyncio.gather(working, interrupting, return_exceptions=True)


async def until_told_to_stop(
    work: Coroutine[None, None, int], at_once: Callable[[], None], *, stopped: int = 0
) -> int:
    """Return the result of `work`, or `stopped` when SIGINT, SIGTERM or SIGHUP ended it.

    The first signal cancels `work`, which then cleans up; a second one calls `at_once` to cut that short.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work)

    def on_signal() -> None:
        if task.cancelling():
            at_once()
        else:
            task.cancel()

    # What the caller made us ignore stays ignored: `nohup` does that, to outlive its terminal.
    heard = [number for number in _STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        loop.add_signal_handler(number, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        return stopped
    finally:
        for number in heard:
            loop.remove_signal_handler(number)
