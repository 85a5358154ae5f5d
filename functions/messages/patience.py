"""How a fault that may pass is outlived: by another try after a wait, which grows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import SystemRandom

from functions.pattern.errors import TransientError
from functions.pattern.ports import Clock

#: Seconds before another try, at random up to a bound: the first, and the longest to which it doubles.
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0

_random = SystemRandom()


async def again_until[ResultT](
    until: datetime, work: Callable[[], Awaitable[ResultT]], clock: Clock
) -> ResultT:
    """Do `work`, and again until then (UTC) while it raises `TransientError`; raise the last of them."""

    def left() -> float:
        return (until - clock.now()).total_seconds()

    return await _again(work, left)


async def again_for[ResultT](seconds: float, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Do `work`, and again for so many seconds while it raises `TransientError`; raise the last of them."""
    time = asyncio.get_running_loop().time
    end = time() + seconds
    return await _again(work, lambda: end - time())


async def _again[ResultT](work: Callable[[], Awaitable[ResultT]], left: Callable[[], float]) -> ResultT:
    """Try for as long as time is `left` after a wait, in seconds: the fault is told before that ends."""
    tries = 0
    while True:
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, 10)) * _random.random()
        try:
            return await work()
        except TransientError:
            if wait >= left():
                raise
        tries += 1
        await asyncio.sleep(wait)
