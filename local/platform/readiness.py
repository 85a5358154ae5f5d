"""Waiting until a part is ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from local.platform.interruption import unless
from local.platform.parts import Readiness
from local.platform.process import PartProcess

if TYPE_CHECKING:
    import aiohttp

#: Seconds from a part's start to its first good answer, far above what a cold machine under load needs.
_READY_WITHIN = 60.0
_POLL = 0.05
#: Seconds for one answer.
_ANSWERED_WITHIN = 5.0
#: Characters of a bad answer that an error shows.
_SHOWN = 500


async def until_ready(process: PartProcess) -> None:
    """Wait until the part is ready. Raises `PartFailedError` when it ends first, or takes too long."""
    try:
        await unless(_early_end(process), until_answered(process.part.ready))
    except TimeoutError as error:
        raise process.failure(f"was not ready within {_READY_WITHIN:g} s: {error}") from None


async def until_answered(ready: Readiness) -> None:
    """Wait until the address gives a good answer. Raises `TimeoutError` with the last bad one."""
    import aiohttp  # noqa: PLC0415 - while the part starts, not before

    missing = "no answer"
    each = aiohttp.ClientTimeout(total=_ANSWERED_WITHIN)
    try:
        async with asyncio.timeout(_READY_WITHIN), aiohttp.ClientSession(timeout=each) as session:
            while missing := await _what_is_missing(session, ready):  # noqa: ASYNC110 - another process starts
                await asyncio.sleep(_POLL)
    except TimeoutError:
        raise TimeoutError(f"GET {ready.url} gave {missing}") from None


async def _early_end(process: PartProcess) -> NoReturn:
    code = await process.wait()
    raise process.failure(f"ended with exit code {code} before it was ready")


async def _what_is_missing(session: aiohttp.ClientSession, ready: Readiness) -> str:
    """Return the bad answer or the error that a GET gave, or the empty string for a good answer."""
    import aiohttp  # noqa: PLC0415 - as above

    try:
        async with session.get(ready.url) as response:
            if response.ok or ready.any_status:
                return ""
            return f"{response.status} {(await response.text())[:_SHOWN]}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return str(error) or type(error).__name__
