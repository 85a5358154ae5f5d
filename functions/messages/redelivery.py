"""Retries of a message before it is given back to its queue.

A message that fails is delivered again at once, ten times at most, and then dead-lettered: an outage of
a few seconds would dead-letter every message in it (Service Bus trigger: no retry policy, immediate
redelivery). So a function retries by itself for a while, with growing waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from functions.pattern.errors import TransientError

#: Seconds for which one delivery is retried; ten of them outlast an outage of several minutes.
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
