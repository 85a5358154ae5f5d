"""Waiting until a part is ready."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import NoReturn
from urllib.parse import urlsplit

from local.platform.interruption import unless
from local.platform.parts import Readiness
from local.platform.process import PartProcess

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
    missing = "no answer"
    try:
        async with asyncio.timeout(_READY_WITHIN):
            while missing := await _what_is_missing(ready):  # noqa: ASYNC110 - another process starts
                await asyncio.sleep(_POLL)
    except TimeoutError:
        raise TimeoutError(f"GET {ready.url} gave {missing}") from None


async def _early_end(process: PartProcess) -> NoReturn:
    code = await process.wait()
    raise process.failure(f"ended with exit code {code} before it was ready")


async def _what_is_missing(ready: Readiness) -> str:
    """Return the bad answer or the error that a GET gave, or the empty string for a good answer."""
    try:
        async with asyncio.timeout(_ANSWERED_WITHIN):
            status, text = await _get(ready.url)
    except (OSError, ValueError, TimeoutError) as error:
        return str(error) or type(error).__name__
    if ready.any_status or status == HTTPStatus.OK:
        return ""
    return f"{status} {text[:_SHOWN]}"


async def _get(url: str) -> tuple[int, str]:
    """Return status and body. A library for this would double the time until the parts start."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(f"GET {parts.path or '/'} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    version, _, rest = head.partition(b" ")
    if not version.startswith(b"HTTP/"):
        raise ValueError("an answer that is not HTTP")
    return int(rest[:3]), body.decode(errors="replace")
