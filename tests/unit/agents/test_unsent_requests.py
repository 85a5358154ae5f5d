"""Requests that never left: the call was not begun. Cookies and waits of one call do not reach another.

The clock is the machine's, and connections are real.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from functions.agents import agent_call
from functions.agents.http_agent import Call, HttpAgent, RemoteService, RestAgent
from functions.core.task_events import OutcomeKind
from functions.host_functions import utc_now
from functions.http import destinations
from functions.http.destinations import new_session
from functions.service_credentials import BearerToken, Token
from tests.unit.agents.conftest import new_call


class _Longest(Random):
    def random(self) -> float:
        return 1.0


class _NoAnswer(AbstractResolver):
    """Name servers, and an identity endpoint, that do not answer."""

    async def resolve(self, *_: object, **_names: Any) -> list[ResolveResult]:
        """Wait for ever."""
        await asyncio.Event().wait()
        return []

    async def issue(self, _scope: str) -> Token:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        """Hold nothing."""


async def _carry_out(
    session: aiohttp.ClientSession, address: str, *, seconds: float = 1, token: bool = False, **fields: Any
) -> OutcomeKind:
    return (await _outcome(RestAgent, session, address, seconds=seconds, token=token, **fields)).kind


async def _outcome(
    agent: type[HttpAgent],
    session: aiohttp.ClientSession,
    address: str,
    *,
    seconds: float = 5,
    token: bool = False,
    **fields: Any,
) -> agent_call.CallOutcome:
    access = RemoteService(
        name="payment",
        address=address,
        now=utc_now,
        session=lambda: session,
        once_session=lambda: session,
        credential=BearerToken("api://pay", _NoAnswer(), utc_now) if token else None,
        random=_Longest(),
    )
    now = utc_now()
    call = new_call(complete_by=now + timedelta(seconds=seconds), **fields)
    return await agent_call.carry_out(agent(access), call, now)


@asynccontextmanager
async def _serving(answer: Callable[[int], bytes]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve an address; yield it, and the heads of all requests. An empty answer is none."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(len(new_call().request))
                writer.write(text := answer(len(heads)))
                if text and not text.endswith((b"}", b"\n")):
                    break  # the connection is lost
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("case", ["connection", "name", "token", "busy"])
async def test_call_whose_request_never_left_is_not_begun(case: str, *, idempotent: bool) -> None:
    """No free connection, no address, no token; or a busy process between two refused attempts."""
    async with _serving(lambda _: b"") as (address, heads):
        resolver = _NoAnswer() if case == "name" else None
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=1, resolver=resolver)
        async with new_session(connector) as session, asyncio.TaskGroup() as others:
            if case == "connection":
                others.create_task(_carry_out(session, address, seconds=2))
                await asyncio.sleep(0.1)
            closed = socket.socket()
            closed.bind(("127.0.0.1", 0))
            busy = f"http://127.0.0.1:{closed.getsockname()[1]}"
            where = {"name": "http://pay.example.com", "busy": busy}.get(case, address)
            begun = others.create_task(
                _carry_out(
                    session, where, token=case == "token", idempotent=idempotent, effect_key="t2.r/p/do"
                )
            )
            if case == "busy":
                await asyncio.sleep(0.4)
                time.sleep(0.9)  # noqa: ASYNC251 - the process does something else
            assert await begun is OutcomeKind.NOT_BEGUN
            closed.close()
        assert not any(b"t2.r" in head for head in heads)


async def test_request_without_an_answer_is_unknown() -> None:
    """Also over a session that does not say when a request leaves."""
    async with _serving(lambda _: b"") as (address, heads), new_session(aiohttp.TCPConnector()) as session:
        assert await _carry_out(session, address) is OutcomeKind.UNKNOWN
        async with aiohttp.ClientSession(trace_configs=[aiohttp.TraceConfig()]) as other:
            assert await _carry_out(other, address) is OutcomeKind.UNKNOWN
            assert await _carry_out(other, "http://127.0.0.1:9") is OutcomeKind.UNKNOWN
    assert len(heads) == 2


@pytest.mark.parametrize("kind", ["http_session", "once_session"])
async def test_cookies_of_one_call_are_not_sent_with_another(kind: str) -> None:
    """They may name a customer, and many of them make a request too large."""
    answer = "HTTP/1.1 200 OK\r\nSet-Cookie: c={}; Path=/\r\nContent-Length: 2\r\n\r\n{{}}"
    async with _serving(lambda number: answer.format(number).encode()) as (address, heads):
        session: aiohttp.ClientSession = getattr(destinations, kind)()
        async with session:
            named = address.replace("127.0.0.1", "localhost")
            kinds = {await _carry_out(session, named, seconds=5) for _ in range(3)}
        getattr(destinations, kind).cache_clear()
    assert (kinds, len(heads)) == ({OutcomeKind.DONE}, 3)
    assert not any(b"Cookie:" in head for head in heads)


@pytest.mark.parametrize("after", ["0", "Sat, 21 Nov 2020 10:00:00 GMT"])
async def test_retry_after_of_no_time_does_not_shorten_the_backoff(after: str) -> None:
    """A service whose clock is behind would be called without a pause."""
    answer = f"HTTP/1.1 503 Down\r\nRetry-After: {after}\r\nContent-Length: 0\r\n\r\n".encode()
    async with _serving(lambda _: answer) as (address, heads), new_session(aiohttp.TCPConnector()) as session:
        assert await _carry_out(session, address, seconds=2) is OutcomeKind.UNKNOWN
    assert 1 < len(heads) < 10


class _TwoPosts(HttpAgent):
    """Sends two posts side by side; the second one waits for its connection."""

    async def do(self, call: Call) -> dict[str, Any]:
        """Return nothing."""
        await asyncio.gather(self.post("a", call.request, call), self.post("b", call.request, call))
        return {}


class _SlowFirst(HttpAgent):
    """Does not wait long for its first post, and raises its error after the second one was accepted."""

    async def do(self, call: Call) -> dict[str, Any]:
        """Raise the first error."""
        first = asyncio.wait_for(self.post("a", call.request, call), 0.3)
        second = self.post("b", call.request, call)
        for each in await asyncio.gather(first, second, return_exceptions=True):
            if isinstance(each, BaseException):
                raise each
        return {}


def _answer(status: int) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\n{{}}".encode()


@pytest.mark.parametrize("idempotent", [True, False])
async def test_refusal_beside_a_post_that_leaves_later_is_unclear(*, idempotent: bool) -> None:
    """The other post waits for the only connection, and leaves after the refusal."""
    async with (
        _serving(lambda number: _answer(422 if number == 1 else 200)) as (address, heads),
        new_session(aiohttp.TCPConnector(limit_per_host=1)) as session,
    ):
        outcome = await _outcome(_TwoPosts, session, address, idempotent=idempotent)
        await asyncio.sleep(0.2)
    assert len(heads) == 2
    expected = (OutcomeKind.REFUSED, True) if idempotent else (OutcomeKind.UNKNOWN, False)
    assert (outcome.kind, outcome.has_unanswered) == expected


async def test_unsent_post_beside_an_accepted_one_is_unknown() -> None:
    """Of a step that must not be repeated."""
    async with (
        _serving(lambda number: b"" if number == 1 else _answer(200)) as (address, heads),
        new_session(aiohttp.TCPConnector(limit_per_host=1)) as session,
        asyncio.TaskGroup() as others,
    ):
        others.create_task(_carry_out(session, address, seconds=0.8))
        await asyncio.sleep(0.1)
        outcome = await _outcome(_SlowFirst, session, address, idempotent=False)
    assert len(heads) == 2
    assert outcome.kind is OutcomeKind.UNKNOWN


async def test_put_over_a_lost_connection_is_repeated_by_the_agent_only() -> None:
    """So it counts as a request without an answer."""
    answers = [_answer(200), b"HTTP/1.1 ", _answer(422)]
    async with (
        _serving(lambda number: answers[number - 1]) as (address, heads),
        new_session(aiohttp.TCPConnector()) as session,
    ):
        assert await _carry_out(session, address) is OutcomeKind.DONE
        outcome = await _outcome(RestAgent, session, address)
    assert (len(heads), outcome.kind, outcome.has_unanswered) == (3, OutcomeKind.REFUSED, True)
