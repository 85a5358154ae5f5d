"""Work that is interrupted by a part that fails, or by Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import NoReturn

#: The exit code of a command that was stopped before its end, as in a shell after Ctrl-C.
INTERRUPTED = 130

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def unless[Result](interruption: Coroutine[None, None, NoReturn], work: Awaitable[Result]) -> Result:
    """Return the result of `work`, or raise the error of `interruption`: the first one ends the other."""
    working = asyncio.ensure_future(work)
    interrupting = asyncio.create_task(interruption)
    try:
        await asyncio.wait({working, interrupting}, return_when=asyncio.FIRST_COMPLETED)
        return interrupting.result() if not working.done() else working.result()
    finally:
        working.cancel()
        interrupting.cancel()
        await asyncio.gather(working, interrupting, return_exceptions=True)


async def until_stop_signal(
    work: Coroutine[None, None, int], at_once: Callable[[], None], *, stopped: int = 0
) -> int:
    """Return the result of `work`, or `stopped` when SIGINT, SIGTERM or SIGHUP ended it.

    The first signal cancels `work`, which then cleans up; a second one calls `at_once` to shorten that.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work)

    def on_signal() -> None:
        if task.cancelling():
            at_once()
        else:
            task.cancel()

    # A signal that the caller has set to be ignored stays ignored: `nohup` does that.
    handled = [number for number in _STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        loop.add_signal_handler(number, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        return stopped
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
