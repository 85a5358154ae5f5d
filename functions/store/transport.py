"""Carries our own requests to Table Storage, over HTTP/1.1 connections that stay open.

It stands where azure-core's transport does, below azure-core's policies. That one and aiohttp take four times
as long over a request as all the rest, for what no request of ours needs: cookies, redirects, streams.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from types import TracebackType
from typing import Self, cast
from urllib.parse import urlsplit

from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import AsyncHttpTransport, HttpRequest

from functions.store.http_answers import NoAnswerError, TableAnswer, read_answer

#: Connections at the same time; more requests wait.
_MOST_CONNECTIONS = 100


class TableTransport(AsyncHttpTransport[HttpRequest, TableAnswer]):
    """Sends requests to one account, whose address it gets; times are limits in seconds."""

    def __init__(self, account: str, *, connection_timeout: float, read_timeout: float) -> None:
        address = urlsplit(account)
        self._origin = f"{address.scheme}://{address.netloc}"
        self._host, self._port = address.hostname or "", address.port
        self._connection_timeout, self._read_timeout = connection_timeout, read_timeout
        self._trust = ssl.create_default_context() if address.scheme == "https" else None
        self._start = f"HTTP/1.1\r\nHost: {address.netloc}\r\n"
        self._idle: list[_Connection] = []
        self._free = asyncio.Semaphore(_MOST_CONNECTIONS)

    async def send(self, request: HttpRequest, **_: object) -> TableAnswer:
        """Send a request and read the answer. Raises `AzureError`."""
        body = request.data if isinstance(request.data, bytes) else b""
        message = self._head(request, len(body)) + body
        async with self._free:
            with suppress(_ClosedUnusedError):
                while self._idle:
                    known = self._idle.pop()
                    if known.is_open:
                        return await self._ask(known, request, message)
            return await self._ask(await self._connect(), request, message)

    async def open(self) -> None:
        """Do nothing: connections are made by requests."""

    async def close(self) -> None:
        """Close idle connections; requests after that make new ones."""
        while self._idle:
            self._idle.pop().close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self.close()

    def _head(self, request: HttpRequest, length: int) -> bytes:
        if not request.url.startswith(f"{self._origin}/"):
            raise ServiceRequestError("another account's address")
        lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        target = request.url[len(self._origin) :]
        return f"{request.method} {target} {self._start}Content-Length: {length}\r\n{lines}\r\n".encode(
            "latin-1"
        )

    async def _connect(self) -> _Connection:
        port = self._port or (80 if self._trust is None else 443)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connection_timeout):
                _, made = await loop.create_connection(_Connection, self._host, port, ssl=self._trust)
        except (OSError, TimeoutError) as error:
            raise ServiceRequestError(f"not connected: {error}", error=error) from error
        return made

    async def _ask(self, connection: _Connection, request: HttpRequest, message: bytes) -> TableAnswer:
        try:
            async with asyncio.timeout(self._read_timeout):
                answer = await connection.ask(request, message)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ServiceResponseError("no answer in time", error=error) from error
            raise
        if connection.is_open:
            self._idle.append(connection)
        return answer


class _ClosedUnusedError(ServiceResponseError):
    """An idle connection was closed at the moment of a request, which may be sent again over another one."""


class _Connection(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._request: HttpRequest | None = None
        self._answer: asyncio.Future[TableAnswer] | None = None
        self._received = b""
        self._has_answered = False

    @property
    def is_open(self) -> bool:
        """Tell whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def ask(self, request: HttpRequest, message: bytes) -> TableAnswer:
        """Send a message and wait for the answer. Raises `ServiceResponseError`."""
        assert self._transport is not None  # noqa: S101 - it is connected when it is given out
        self._request, self._answer = request, asyncio.get_running_loop().create_future()
        self._transport.write(message)
        return await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what to write to."""
        self._transport = cast("asyncio.Transport", transport)  # a stream of bytes

    def data_received(self, data: bytes) -> None:
        """Read the answer, as soon as it is whole."""
        self._received += data
        if self._request is None or self._answer is None:
            self.close()  # bytes that nobody has asked for
            return
        try:
            read = read_answer(self._request, self._received)
        except NoAnswerError as error:
            self._fail(ServiceResponseError(f"no answer: {error}", error=error))
            return
        if read is None:
            return
        answer, length = read
        is_last = answer.fields.get("connection", "").lower() == "close"
        if is_last or length != len(self._received):
            self.close()
        waiting, self._request, self._answer, self._received = self._answer, None, None, b""
        self._has_answered = True
        if not waiting.done():
            waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits."""
        is_stale = self._has_answered and not self._received
        self._fail((_ClosedUnusedError if is_stale else ServiceResponseError)(f"connection lost: {exc}"))

    def _fail(self, error: Exception) -> None:
        waiting, self._request, self._answer = self._answer, None, None
        self.close()
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
