"""Outcomes of Agents with several requests, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from pydantic import BaseModel

from functions.agents import agent_call
from functions.agents.http_agent import Call, HttpAgent, RemoteService
from functions.core.task_events import OutcomeKind
from functions.host_functions import utc_now
from functions.http.destinations import new_session
from tests.unit.agents.conftest import new_call


class Charge(BaseModel):
    """A result."""

    reference: str


def _answer(status: int, body: bytes = b"{}") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def _serving(
    answers: dict[str, tuple[float, bytes]], *, requests: int = 99
) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve answers by path, each after some seconds; the port is closed after a number of requests."""
    paths: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"POST"):
                    await reader.readexactly(len(new_call().request))
                path = head.split()[1].decode().strip("/")
                paths.append(path)
                if len(paths) >= requests:
                    server.close()
                seconds, answer = answers[path]
                await asyncio.sleep(seconds)
                writer.write(answer)
                await writer.drain()
                if len(paths) >= requests:
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", paths
    finally:
        server.close()


async def _outcome(
    agent: type[HttpAgent], session: aiohttp.ClientSession, address: str, *, seconds: float = 3, **fields: Any
) -> agent_call.CallOutcome:
    access = RemoteService(
        name="payment", address=address, now=utc_now, session=lambda: session, once_session=lambda: session
    )
    now = utc_now()
    call = new_call(complete_by=now + timedelta(seconds=seconds), **fields)
    return await agent_call.carry_out(agent(access), call, now)


class _SideBySide(HttpAgent):
    """Sends two posts; the answer of the first one is not usable."""

    async def do(self, call: Call) -> Charge:
        charge, _ = await asyncio.gather(
            self.post("a", call.request, call, returns=Charge), self.post("b", call.request, call)
        )
        return Charge.model_validate(charge)


@pytest.mark.parametrize("idempotent", [True, False])
async def test_unusable_answer_beside_a_post_that_is_refused_is_not_done(*, idempotent: bool) -> None:
    """The second post is under way; its refusal comes 0.3 seconds later."""
    answers = {"a": (0.1, _answer(200)), "b": (0.4, _answer(422))}
    async with _serving(answers) as (address, paths), new_session(aiohttp.TCPConnector()) as session:
        outcome = await _outcome(_SideBySide, session, address, idempotent=idempotent)
        await asyncio.sleep(0.6)
    assert sorted(paths) == ["a", "b"]
    assert outcome.kind is not OutcomeKind.DONE_WITHOUT_RESULT


class _ReadFirst(HttpAgent):
    """Reads, then pays."""

    async def do(self, call: Call) -> dict[str, Any]:
        await self.read("account", call, returns=Charge)
        return await self.post("pay", call.request, call)


@pytest.mark.parametrize("idempotent", [True, False])
async def test_read_that_the_service_answered_with_503_is_unknown(*, idempotent: bool) -> None:
    """Then the service restarts. docs/agents.md: after a transient fault, even of a read, it is unknown."""
    answers = {"account": (0.0, _answer(503))}
    async with (
        _serving(answers, requests=1) as (address, paths),
        new_session(aiohttp.TCPConnector(force_close=True)) as session,
    ):
        outcome = await _outcome(_ReadFirst, session, address, idempotent=idempotent)
    assert paths == ["account"]
    assert outcome.kind is OutcomeKind.UNKNOWN
