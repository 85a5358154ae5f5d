"""Patience with a message before it is given back.

A message that fails is delivered again at once, ten times at most, and then it is dead: an outage of
some seconds would kill every message that meets it (Service Bus trigger: no retry policy, immediate
redelivery). So a function tries again by itself for a while, with growing waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from functions.pattern.errors import TransientError

#: Seconds for which one delivery is tried; ten of them outlast an outage of several minutes.
PATIENCE_SECONDS = 45.0

_FIRST_WAIT = 0.2
_LONGEST_WAIT = 10.0


async def patiently(work: Callable[[], Awaitable[None]], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Do `work`, and again while it raises `TransientError`; raises the last of them after `seconds`."""
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=_FIRST_WAIT, max=_LONGEST_WAIT),
        reraise=True,
    )
    await retrying(work)
