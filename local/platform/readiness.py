"""Waiting for a part, which a failed part or Ctrl-C interrupts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Coroutine
from http import HTTPStatus
from typing import NoReturn
from urllib.parse import urlsplit

from local.platform.parts import Readiness
from local.platform.process import PartProcess

#: The exit code of a command that was stopped before its end, as in a shell after Ctrl-C.
INTERRUPTED = 130

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds from a part's start to its first good answer, far above what a cold machine under load needs.
_READY_WITHIN = 60.0
_POLL = 0.05
#: Seconds for one answer.
_ANSWERED_WITHIN = 5.0
#: Characters of a bad answer that an error shows.
_SHOWN = 500


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


async def until_stop_signal(work: Coroutine[None, None, int], *, stopped: int = 0) -> int:
    """Return the result of `work`, or `stopped` when SIGINT, SIGTERM or SIGHUP ended it.

    The first signal cancels `work`, which then cleans up; a second one kills the parts that still run.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work)

    def on_signal() -> None:
        if not task.cancelling():
            task.cancel()
            return
        for process in PartProcess.running:
            process.kill_now()

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
