"""Waiting until a part answers."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import aiohttp

from local.platform.interruption import unless
from local.platform.parts import Readiness
from local.platform.process import PartProcess

#: Seconds from a part's start to its first good answer, far above what a cold machine under load needs.
_READY_WITHIN = 60.0
_POLL = 0.05
_TIMEOUT = aiohttp.ClientTimeout(total=5)
#: Characters of a bad answer that an error shows.
_SHOWN = 500


async def until_ready(process: PartProcess) -> None:
    """Wait until the part answers. Raises `PartFailedError` when it ends before, or takes too long."""
    await unless(_early_end(process), _first_good_answer(process))


async def _early_end(process: PartProcess) -> NoReturn:
    code = await process.wait()
    raise process.failure(f"ended with exit code {code} before it was ready")


async def _first_good_answer(process: PartProcess) -> None:
    ready = process.part.ready
    missing = "nothing"
    try:
        async with asyncio.timeout(_READY_WITHIN), aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                missing = await _what_is_missing(session, ready)
                if not missing:
                    return
                await asyncio.sleep(_POLL)
    except TimeoutError:
        raise process.failure(
            f"was not ready within {_READY_WITHIN:g} s: GET {ready.url} gave {missing}"
        ) from None


async def _what_is_missing(session: aiohttp.ClientSession, ready: Readiness) -> str:
    """Return what a GET gave instead of a good answer, or the empty string when it is good."""
    try:
        async with session.get(ready.url) as response:
            if response.ok or ready.any_status:
                return ""
            return f"{response.status} {(await response.text())[:_SHOWN]}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return str(error) or type(error).__name__
