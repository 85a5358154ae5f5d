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
    """One response. `pieces` are sent one by one; with `hangs` set, it is never sent."""

    status: int = 200
    pieces: tuple[bytes, ...] = (b'{"paid":true}',)
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


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
        self.received.append(
            Received(request.method, request.path, dict(request.headers), await request.read())
        )
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.hangs:
            await self._ended.wait()
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        await response.prepare(request)
        for piece in answer.pieces:
            await response.write(piece)
            await asyncio.sleep(0.005)  # so that the pieces are sent separately
        return response
