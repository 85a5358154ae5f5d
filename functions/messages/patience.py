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
_MOST_DOUBLINGS = 10

_random = SystemRandom()


async def again_until[ResultT](
    until: datetime, work: Callable[[], Awaitable[ResultT]], clock: Clock
) -> ResultT:
    """Do `work`, and again while it raises `TransientError`; past `until` (UTC) raise the last of them."""
    return await _again(work, lambda: clock.now() >= until)


async def again_for[ResultT](seconds: float, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Do `work`, and again while it raises `TransientError`; after some seconds raise the last of them."""
    time = asyncio.get_running_loop().time
    end = time() + seconds
    return await _again(work, lambda: time() >= end)


async def _again[ResultT](work: Callable[[], Awaitable[ResultT]], is_over: Callable[[], bool]) -> ResultT:
    tries = 0
    while True:
        try:
            return await work()
        except TransientError:
            if is_over():
                raise
        bound = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, _MOST_DOUBLINGS))
        tries += 1
        await asyncio.sleep(bound * _random.random())
