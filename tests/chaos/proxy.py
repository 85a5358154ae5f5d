"""A TCP proxy between the application and the tables, which can cut, hold, slow and swallow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

_CHUNK = 65_536


class Weather(StrEnum):
    """How the proxy treats what passes."""

    #: Everything passes at once.
    FAIR = "fair"
    #: New connections are cut as soon as they are made.
    CUTTING = "cutting"
    #: Nothing passes; it does when the weather changes.
    HOLDING = "holding"
    #: Everything passes late.
    SLOW = "slow"
    #: Requests pass; instead of their answer, the connection ends.
    SWALLOWING = "swallowing"


class Proxy:
    """Forwards connections to one port of this machine. `slowness` is in seconds, for each piece of data."""

    def __init__(self, *, slowness: float) -> None:
        self._slowness = slowness
        self._target: int | None = None
        self._port = 0
        self._weather = Weather.FAIR
        self._changed = asyncio.Event()
        self._met = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Proxy]:
        """Accept connections until the block ends."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self._cut_all()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    def forward_to(self, port: int) -> None:
        """Choose the port that connections are forwarded to; before that they are cut."""
        self._target = port

    @asynccontextmanager
    async def weather(self, weather: Weather) -> AsyncIterator[None]:
        """Treat what passes in this way until the block ends."""
        self._met = 0
        self._change(weather)
        try:
            yield
        finally:
            self._change(Weather.FAIR)

    @property
    def met(self) -> int:
        """How many connections or pieces of data met the present weather, or the last that was not fair."""
        return self._met

    def _change(self, weather: Weather) -> None:
        self._weather = weather
        self._changed.set()
        self._changed = asyncio.Event()
        if weather is Weather.CUTTING:
            self._met += len(self._writers) // 2  # a connection has two ends
            self._cut_all()

    def _cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._target is None or self._weather is Weather.CUTTING:
            self._met += 1
            writer.transport.abort()
            return
        with suppress(OSError):
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._target)
            await self._join((reader, writer), (onward_reader, onward_writer))
        writer.close()

    async def _join(
        self,
        caller: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        tables: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        pair = {caller[1], tables[1]}
        self._writers |= pair
        requests = asyncio.create_task(self._pass(caller[0], tables[1]))
        answers = asyncio.create_task(self._pass(tables[0], caller[1], are_answers=True))
        try:
            await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._writers -= pair
            for writer in pair:
                writer.close()
            requests.cancel()
            answers.cancel()
            await asyncio.gather(requests, answers, return_exceptions=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_answers: bool = False
    ) -> None:
        while data := await reader.read(_CHUNK):
            if self._weather is Weather.SWALLOWING and are_answers:
                self._met += 1
                return
            await self._wait()
            writer.write(data)
            await writer.drain()

    async def _wait(self) -> None:
        if self._weather is Weather.SLOW:
            self._met += 1
            await asyncio.sleep(self._slowness)
        while self._weather is Weather.HOLDING:
            self._met += 1
            await self._changed.wait()
