"""Waiting that always ends: nothing that hangs, and nothing that is interrupted, is taken for done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from functions.pattern.errors import TransientError


async def within[ResultT](seconds: float, work: Awaitable[ResultT]) -> ResultT:
    """Await `work` for so many seconds at most. Raises what it raises, and `TransientError`.

    That is raised at the end of the time, and when what `work` waits for was cancelled by somebody else: a
    `CancelledError` that nobody has asked for would pass by every `except Exception`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise TransientError(f"not done within {seconds:g} s") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise TransientError("interrupted: what it waits for was cancelled") from error
