"""Requests over HTTP: signatures, tokens, retries, and answers that are wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.core.credentials import AzureNamedKeyCredential

from functions.core.definition.step_definition import Retry
from functions.service_credentials import BearerToken
from functions.storage import azure_table
from functions.storage.azure_table import SCOPE, AzureTable, StorageSession
from functions.storage.table_contract import RefusedChanges, RowChange, RowQuery, TransientStorageError
from tests.unit.agents.test_service_credentials import Issuer

KEY = "a2V5"
CHANGES = [RowChange("upsert", "a", {"T": "x"})]
WRITTEN = (
    "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n"
    "--changesetresponse_1\r\nContent-Type: application/http\r\n\r\n"
    'HTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n\r\n'
    "--changesetresponse_1--\r\n--batchresponse_1--\r\n"
)


class Service:
    """A server whose next answers a test sets: a status, or a whole answer."""

    def __init__(self) -> None:
        self.answers: list[int | web.Response | Callable[[], web.Response]] = []
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Return the next answer."""
        self.requests.append(request)
        self.bodies.append(await request.read())
        answer = self.answers.pop(0)
        if answer == 0:  # the connection breaks
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if isinstance(answer, int):
            return web.Response(status=answer)
        return answer if isinstance(answer, web.Response) else answer()


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Service, AzureTable]]:
    """Run a server, without pauses between retries."""
    monkeypatch.setattr(azure_table, "_RETRY", Retry(first=0.01, longest=0.01))
    service = Service()
    application = web.Application(client_max_size=8 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", service.handle)
    async with TestServer(application) as server:
        address = str(server.make_url("/acc"))
        credential = AzureNamedKeyCredential("acc", KEY)
        async with aclosing(StorageSession(f"{address}/", credential)) as session:
            yield service, AzureTable(session, "Tasks")


def written(status: int = 202) -> web.Response:
    """Return the answer to a transaction."""
    return web.Response(status=status, body=WRITTEN.encode())


def rows(*keys: str, **headers: str) -> web.Response:
    """Return a page."""
    return web.json_response({"value": [{"RowKey": key} for key in keys]}, headers=headers)


type Serving = tuple[Service, AzureTable]


@pytest.mark.parametrize("fault", [0, 408, 429, 500, 502, 503, 504])
async def test_fault_is_retried(service: Serving, fault: int) -> None:
    """A lost connection, and the statuses of a busy service."""
    server, table = service
    server.answers = [fault, fault, written()]
    assert await table.send("000", CHANGES) == ['W/"1"']
    assert (table.figures["transactions"], table.figures["retries"]) == (3, 2)
    assert len(set(server.bodies)) == 1


async def test_fault_ends_after_four_tries(service: Serving) -> None:
    """The sender decides how long it tries again."""
    server, table = service
    server.answers = [503] * 4
    with pytest.raises(TransientStorageError, match="503"):
        await table.read("000", "a")
    assert table.figures["reads"] == 4


@pytest.mark.parametrize(
    "answer",
    [
        401,
        403,
        404,
        lambda: written(200),
        lambda: web.Response(status=202, text="nothing"),
    ],
)
async def test_other_fault_is_raised_at_once(service: Serving, answer: Any) -> None:
    """The next try would have the same answer."""
    server, table = service
    server.answers = [answer]
    with pytest.raises(TransientStorageError):
        await table.send("000", CHANGES)


async def test_refused_request_is_no_fault(service: Serving) -> None:
    """A request that is too large is that of one task."""
    server, table = service
    server.answers = [413]
    assert await table.send("000", CHANGES) == RefusedChanges(413, "HTTP 413")


async def test_large_body_is_sent_in_parts(service: Serving) -> None:
    """It does not block the event loop, and it is sent again as a whole."""
    server, table = service
    server.answers = [503, written()]
    changes = [RowChange("upsert", "a", {f"T{n}": "x" * 30_000 for n in range(30)})]
    assert await table.send("000", changes) == ['W/"1"']
    assert len(server.bodies[0]) == len(server.bodies[1]) > 900_000


@pytest.mark.parametrize("text", ["<html>", "[]", "{}", '{"value": 1}'])
async def test_wrong_page_is_a_fault(service: Serving, text: str) -> None:
    """No row is taken for missing."""
    server, table = service
    server.answers = [web.Response(text=text)]
    with pytest.raises(TransientStorageError):
        await table.query("000", RowQuery("a", "b"))


async def test_query_is_one_request_and_its_continuation_another(service: Serving) -> None:
    """Keys are literals of the filter, with quotes doubled."""
    server, table = service
    token = {"x-ms-continuation-NextPartitionKey": "1!4!MA", "x-ms-continuation-NextRowKey": "1!8!eA"}
    server.answers = [rows("a'1", **token), rows()]
    page = await table.query("000", RowQuery("a'", "b", most=5000, columns=("RowKey",), having="Index"))
    assert [row["RowKey"] for row in page.rows] == ["a'1"]
    query = server.requests[0].query
    assert query["$filter"] == "PartitionKey eq '000' and RowKey ge 'a''' and RowKey lt 'b' and Index gt ''"
    assert (query["$top"], query["$select"]) == ("1000", "RowKey")
    last = await table.query("000", RowQuery("a'", "b", beyond="a'1", continuation=page.continuation))
    assert (last.rows, last.continuation) == ([], None)
    query = server.requests[1].query
    assert (query["NextPartitionKey"], query["NextRowKey"]) == ("1!4!MA", "1!8!eA")
    assert "RowKey gt 'a''1'" in query["$filter"]


async def test_missing_row_and_missing_table_differ(service: Serving) -> None:
    """A missing table is a fault."""
    server, table = service
    error = {"odata.error": {"code": "TableNotFound", "message": {"value": "no table"}}}
    server.answers = [404, web.json_response(error, status=404), 404]
    assert await table.read("000", "a") is None
    with pytest.raises(TransientStorageError):
        await table.read("000", "a")
    with pytest.raises(TransientStorageError):
        await table.query("000", RowQuery("a", "b"))


async def test_signature_covers_the_path(service: Serving) -> None:
    """Each request has its date and signature."""
    server, table = service
    server.answers = [404]
    await table.read("000", "a b")
    headers = server.requests[0].headers
    assert headers["Authorization"].startswith("SharedKeyLite acc:")
    session = StorageSession("http://host/acc", AzureNamedKeyCredential("acc", KEY), lambda: 0.0)
    first, second = await session._signed("/acc/Tasks()"), await session._signed("/acc/$batch")
    assert first["x-ms-date"] == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert first["Authorization"] != second["Authorization"]


async def test_request_without_a_token_is_a_fault() -> None:
    """Nothing was sent."""
    issuer = Issuer()
    issuer.is_failing = True
    session = StorageSession("http://a", BearerToken(SCOPE, issuer, issuer.now))
    with pytest.raises(TransientStorageError, match=r"^no token for .+: Client"):
        await AzureTable(session, "Tasks").read("000", "a")


async def test_rejected_token_is_replaced(service: Serving) -> None:
    """The service revokes tokens."""
    server, table = service
    issuer = Issuer()
    server.answers = [401, 404]
    token = BearerToken(SCOPE, issuer, issuer.now)
    async with aclosing(StorageSession(table.session.address, token)) as session:
        table = AzureTable(session, "Tasks")
        with pytest.raises(TransientStorageError):
            await table.read("000", "a")
        assert await table.read("000", "a") is None
    sent = [each.headers["Authorization"] for each in server.requests]
    assert sent == ["Bearer canary-1", "Bearer canary-2"]
