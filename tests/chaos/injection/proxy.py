"""A TCP proxy between the application and a dependency, which can close, hold and drop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

_CHUNK = 65_536


class ProxyMode(StrEnum):
    """How the proxy treats connections and data."""

    #: Everything is forwarded at once.
    PASSING = "passing"
    #: Connections are closed as soon as they are opened.
    CUTTING = "cutting"
    #: Nothing is forwarded until the mode changes.
    HOLDING = "holding"
    #: Requests are forwarded, and answers are not until the mode changes.
    HOLDING_ANSWERS = "holding answers"
    #: Requests are forwarded; instead of the answer, the connection is closed.
    DROPPING_ANSWERS = "dropping answers"


class Proxy:
    """Forwards connections to one port of this machine."""

    def __init__(self) -> None:
        self._target: int | None = None
        self._port = 0
        self._mode = ProxyMode.PASSING
        self._changed = asyncio.Event()
        self._affected = 0
        self._free = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Proxy]:
        """Accept connections until the block ends, which closes them all."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            left = tuple(self._writers)
            self._cut_all()
            await asyncio.gather(*(writer.wait_closed() for writer in left), return_exceptions=True)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._port

    def forward_to(self, port: int) -> None:
        """Choose the port that connections are forwarded to; before that they are closed."""
        self._target = port

    @asynccontextmanager
    async def mode(self, mode: ProxyMode) -> AsyncIterator[None]:
        """Use this mode until the block ends; wait for the end of another one before that."""
        async with self._free:
            self._affected = 0
            self._change(mode)
            try:
                yield
            finally:
                self._change(ProxyMode.PASSING)

    @property
    def affected(self) -> int:
        """How many connections or pieces of data the present mode affected, or the last one that ended."""
        return self._affected

    def _change(self, mode: ProxyMode) -> None:
        self._mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode is ProxyMode.CUTTING:
            self._affected += len(self._connections)
            self._cut_all()

    def _cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connected(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._open(writer):
            if self._target is None or self._mode is ProxyMode.CUTTING:
                self._affected += 1
                writer.transport.abort()
                return
            with suppress(OSError):
                onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._target)
                async with self._open(onward_writer):
                    await self._join((reader, writer), (onward_reader, onward_writer))

    @asynccontextmanager
    async def _open(self, writer: asyncio.StreamWriter) -> AsyncIterator[None]:
        """Keep one end of a connection in mind until it is closed: what is not, `serving` cuts at its end."""
        self._writers.add(writer)
        try:
            yield
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._writers.discard(writer)

    async def _join(
        self,
        caller: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        target: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Forward both ways until one way ends."""
        requests = asyncio.create_task(self._pass(caller[0], target[1]))
        answers = asyncio.create_task(self._pass(target[0], caller[1], are_answers=True))
        try:
            await asyncio.wait({requests, answers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            requests.cancel()
            answers.cancel()
            await asyncio.gather(requests, answers, return_exceptions=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_answers: bool = False
    ) -> None:
        while data := await reader.read(_CHUNK):
            if self._mode is ProxyMode.DROPPING_ANSWERS and are_answers:
                self._affected += 1
                return
            await self._wait(are_answers=are_answers)
            writer.write(data)
            await writer.drain()

    async def _wait(self, *, are_answers: bool) -> None:
        while self._mode is ProxyMode.HOLDING or (are_answers and self._mode is ProxyMode.HOLDING_ANSWERS):
            self._affected += 1
            await self._changed.wait()
