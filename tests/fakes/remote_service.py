"""A scripted remote service on its own port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.web_server import served


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, after `seconds`. `pieces` are sent one by one; with `hangs` set, it is never sent.

    With `hangs_up` set, the connection is closed instead; with `breaks_off`, in the middle of the response.
    """

    status: int = 200
    pieces: tuple[bytes, ...] = (b'{"paid":true}',)
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    hangs_up: bool = False
    breaks_off: bool = False
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    #: The caller's port: one for each connection.
    port: int


class RemoteServiceFake:
    """Sends its responses in order, then repeats the last one."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [Answer()]
        self.received: list[Received] = []
        self.address = ""
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RemoteServiceFake]:
        """Serve until the block ends."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with served(app) as self.address:
            try:
                yield self
            finally:
                self._ended.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        port = request.transport.get_extra_info("peername")[1]
        body = await request.read()
        self.received.append(Received(request.method, request.path, dict(request.headers), body, port))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.hangs:
            await self._ended.wait()
        await asyncio.sleep(answer.seconds)
        if answer.hangs_up:
            request.transport.close()
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        await response.prepare(request)
        for piece in answer.pieces:
            await response.write(piece)
            await asyncio.sleep(0.005)  # so that the pieces are sent separately
        if answer.breaks_off:
            request.transport.close()
        return response
