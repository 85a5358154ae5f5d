"""Connections to Table Storage: answers in bytes, stale connections, and empty pages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import pytest
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import HttpRequest
from azure.data.tables.aio import TableClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from functions.pattern.request_figures import StoreFigures
from functions.store.http_answers import NoAnswerError, read_answer
from functions.store.pages import every_row, first_rows
from functions.store.transport import TableTransport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request of a connection with what the script gives for it; nothing: it closes."""

    def __init__(self, script: Callable[[int, int], bytes | None]) -> None:
        self._script = script
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.closed = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; both numbers count from 0."""
        connection, self.connections = self.connections, self.connections + 1
        number = 0
        try:
            while answer := self._script(connection, number):
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                length = self.heads[-1].lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                self.bodies.append(await reader.readexactly(int(length)))
                writer.write(answer)
                number += 1
        except asyncio.IncompleteReadError:
            self.closed.set()
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    script: Callable[[int, int], bytes | None], trust: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Server, TableTransport]]:
    """Run a server, and give a transport to it."""
    server = Server(script)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=trust)
    scheme = "http" if trust is None else "https"
    server.url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}/account"
    transport = TableTransport(server.url, connection_timeout=5, read_timeout=5)
    async with listener, transport:
        yield server, transport


def _request(server: Server, body: bytes = b"body") -> HttpRequest:
    return HttpRequest("POST", f"{server.url}/$batch?a=%20", headers={"If-Match": "*"}, data=body)


async def test_requests_share_a_connection() -> None:
    """One after the other; each is sent as it is."""
    async with serving(lambda *_: OK) as (server, transport):
        for body in (b"1", b"22"):
            answer = await transport.send(_request(server, body))
            assert (answer.status_code, answer.content) == (200, b"ok")
        assert server.connections == 1
    assert server.bodies == [b"1", b"22"]
    assert server.heads[0].startswith(b"POST /account/$batch?a=%20 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nIf-Match: *\r\n" in server.heads[0]


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    """None waits for another's answer."""
    async with serving(lambda *_: OK) as (server, transport):
        await asyncio.gather(*(transport.send(_request(server)) for _ in range(3)))
        assert server.connections == 3


async def test_request_on_a_stale_connection_is_sent_over_a_new_one() -> None:
    """The service closes a connection that was idle for long, maybe just now."""
    async with serving(lambda connection, number: OK if connection or not number else None) as (
        server,
        transport,
    ):
        for _ in range(2):
            assert (await transport.send(_request(server))).content == b"ok"
        assert server.connections == 2


@pytest.mark.parametrize("answer", [None, b"SSH-2.0\r\n\r\n"])
async def test_no_answer_is_a_fault(answer: bytes | None) -> None:
    """The service ends the connection, or speaks something else."""
    async with serving(lambda *_: answer) as (server, transport):
        with pytest.raises(ServiceResponseError):
            await transport.send(_request(server))


async def test_silent_service_is_a_fault() -> None:
    """After the limit; the connection is not used again."""
    async with serving(lambda *_: b"HTTP/1.1 200 OK\r\n") as (server, _):
        hasty = TableTransport(server.url, connection_timeout=5, read_timeout=0.01)
        with pytest.raises(ServiceResponseError, match="in time"):
            await hasty.send(_request(server))
        await server.closed.wait()


async def test_cancelled_request_takes_its_connection_with_it() -> None:
    """Or its answer would be the next request's."""
    async with serving(lambda connection, _: OK if connection else b"HTTP/1.1 200 OK\r\n") as (
        server,
        transport,
    ):
        asking = asyncio.create_task(transport.send(_request(server)))
        while not server.bodies:
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.closed.wait()
        assert (await transport.send(_request(server))).content == b"ok"


@pytest.mark.parametrize("last", [OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), OK + b"more"])
async def test_connection_that_ends_is_not_used_again(last: bytes) -> None:
    """The service says so, or sends what nobody has asked for."""
    async with serving(lambda *_: last) as (server, transport):
        for _ in range(2):
            assert (await transport.send(_request(server))).content == b"ok"
        assert server.connections == 2


async def test_service_that_is_not_there_is_a_fault_before_anything_was_sent() -> None:
    """So the request may be repeated, whatever it is."""
    async with serving(lambda *_: OK) as (server, transport):
        pass
    with pytest.raises(ServiceRequestError):
        await transport.send(_request(server))


async def test_no_other_account_is_asked() -> None:
    """Its credentials are for this one."""
    transport = TableTransport("https://account", connection_timeout=5, read_timeout=5)
    with pytest.raises(ServiceRequestError, match="another"):
        await transport.send(HttpRequest("GET", "https://account.evil.example/x"))


async def test_service_shows_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By those that the machine trusts, for the host that was meant."""
    trust = _certificate(tmp_path)
    async with serving(lambda *_: OK, trust) as (server, transport):
        with pytest.raises(ServiceRequestError, match="certificate"):
            await transport.send(_request(server))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        trusting = TableTransport(server.url, connection_timeout=5, read_timeout=5)
        assert (await trusting.send(_request(server))).content == b"ok"
        await trusting.close()


def _certificate(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


ASKED = HttpRequest("GET", "https://account/table")
CHUNKED = b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\nETag: W/x\r\n\r\n"
BY_LENGTH = b"HTTP/1.1 404 Not Found\r\ncontent-length:5 \r\n\r\n12345"

WHOLE = {
    "length": (BY_LENGTH, 404, b"12345"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "no content": (b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, b""),
    "chunks": (
        CHUNKED + b"5\r\n12345\r\nA;name=value\r\n1234\r\n7890\r\n0\r\n\r\n",
        202,
        b"123451234\r\n7890",
    ),
    "trailers": (CHUNKED + b"1\r\n1\r\n0\r\nDigest: x\r\nOther: y\r\n\r\n", 202, b"1"),
    "no reason": (b"HTTP/1.1 500\r\nContent-Length: 1\r\n\r\nx", 500, b"x"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_answer_is_read_when_it_is_whole(name: str) -> None:
    """No part of it is taken for the whole, and what follows is left alone."""
    received, status, content = WHOLE[name]
    for end in range(len(received)):
        assert read_answer(ASKED, received[:end]) is None
    read = read_answer(ASKED, received + b"HTTP/1.1 200")
    assert read is not None
    answer, length = read
    assert (answer.status_code, answer.content, length) == (status, content, len(received))
    assert answer.request is ASKED


def test_headers_are_found_however_they_are_written() -> None:
    """Names have no case, and values no blanks around them."""
    read = read_answer(ASKED, BY_LENGTH)
    assert read is not None
    assert read[0].headers["Content-Length"] == "5"
    assert (read[0].reason, read[0].text()) == ("Not Found", "12345")


@pytest.mark.parametrize(
    "received",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end of the connection",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
        CHUNKED + b"x\r\n",
        CHUNKED + b"1\r\n123\r\n",
    ],
)
def test_anything_else_is_no_answer(received: bytes) -> None:
    """It is never guessed where an answer ends: half of one would look like a whole."""
    with pytest.raises(NoAnswerError):
        read_answer(ASKED, received)


type _Row = Mapping[str, Any]

_KEYS = {"partition": "p", "first": "a", "end": "z"}
_ROWS: Sequence[Sequence[_Row]] = ([], [{"RowKey": "a"}], [], [{"RowKey": "b"}, {"RowKey": "c"}])


class _Pages:
    """The table, its query and its pages: each continuation names the number of the next page."""

    continuation_token: dict[str, str] | None = None

    def __init__(self, number: int = 0) -> None:
        self._number = number

    def query_entities(self, *_: object, **__: object) -> _Pages:
        """Be the query."""
        return self

    def by_page(self, token: dict[str, str] | None) -> _Pages:
        """Begin at a page."""
        return _Pages(0 if token is None else int(token["NextRowKey"]))

    def __aiter__(self) -> _Pages:
        return self

    async def __anext__(self) -> AsyncIterator[_Row]:
        following = self._number + 1
        self.continuation_token = {"NextRowKey": f"{following}"} if following < len(_ROWS) else None
        return _rows(_ROWS[self._number])


async def _rows(found: Sequence[_Row]) -> AsyncIterator[_Row]:
    for row in found:
        yield row


_TABLE = cast("TableClient", _Pages())


async def test_first_rows_are_behind_an_empty_page() -> None:
    """What is announced waits for no later sweep."""
    figures = StoreFigures()
    page = await first_rows(_TABLE, figures, _KEYS, 10)
    assert (page.rows, figures.reads) == (({"RowKey": "a"},), 2)
    assert page.continuation is not None


async def test_every_row_is_read() -> None:
    """An open circuit is not overlooked."""
    figures = StoreFigures()
    assert [row["RowKey"] async for row in every_row(_TABLE, figures, _KEYS)] == ["a", "b", "c"]
    assert figures.reads == len(_ROWS)
