"""When a part counts as ready, and what the error says of one that does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from local.platform import readiness
from local.platform.parts import Readiness

_BAD = b"HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\nstill starting"
_GOOD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfine"


@asynccontextmanager
async def _answering(*answers: bytes) -> AsyncIterator[str]:
    """Serve the answers one after the other, the last one for ever, and yield the address."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"


async def test_a_bad_answer_is_asked_again() -> None:
    """Until it is a good one."""
    async with _answering(_BAD, b"no HTTP", _GOOD) as url:
        await readiness.until_answered(Readiness(url))


async def test_any_status_is_enough_where_that_is_asked_for() -> None:
    """Azurite answers 400 to a plain GET; something that is not HTTP is no answer."""
    async with _answering(b"no HTTP", _BAD) as url:
        await readiness.until_answered(Readiness(url, any_status=True))


@pytest.mark.parametrize(("answer", "said"), [(_BAD, "503 still starting"), (b"?", "not HTTP")])
async def test_the_last_bad_answer_is_in_the_error(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, said: str
) -> None:
    """The developer sees what the part said."""
    monkeypatch.setattr(readiness, "_READY_WITHIN", 3.0)
    async with _answering(answer) as url:
        with pytest.raises(TimeoutError, match=said):
            await readiness.until_answered(Readiness(url))
