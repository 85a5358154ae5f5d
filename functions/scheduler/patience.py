"""How a fault that may pass is outlived."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from functions.pattern.errors import TransientError
from functions.pattern.ports import Clock

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0


async def again_until[ResultT](
    until: datetime, work: Callable[[], Awaitable[ResultT]], clock: Clock
) -> ResultT:
    """Do `work`, and again while it raises `TransientError`; past `until` (UTC) raise the last of them."""
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TransientError),
        stop=lambda _: clock.now() >= until,
        wait=wait_random_exponential(multiplier=_FIRST_WAIT, max=_LONGEST_WAIT),
        reraise=True,
    )
    return await retrying(work)
