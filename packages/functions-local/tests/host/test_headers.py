"""CORS, asked as a browser asks."""

from __future__ import annotations

import aiohttp
import pytest

from functions_local.configuration import Cors
from functions_local.http.headers import ResponseHeaders
from functions_local.http.keys import Keys
from functions_local.http.routes import RouteTable
from functions_local.http.server import HttpFunctions, HttpServer
from tests.host.doubles import FakeWorker, invocations

_ASKS = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-a"}


async def answered(method: str, cors: Cors, **headers: str) -> dict[str, str]:
    """Return the CORS headers of a response, without their common prefix."""
    server = HttpServer(0, ResponseHeaders({}, cors))
    functions = HttpFunctions(RouteTable([], "api"), invocations(FakeWorker()), Keys(None))
    await server.serve([], functions)
    try:
        async with (
            aiohttp.ClientSession(server.url) as client,
            client.request(method, "/", headers=headers) as response,
        ):
            prefix = "Access-Control-Allow-"
            found = {k.removeprefix(prefix): v for k, v in response.headers.items() if k.startswith(prefix)}
            return {"status": str(response.status), **found}
    finally:
        await server.close()


@pytest.mark.parametrize("origins", [{"*"}, {"http://a"}])
async def test_allowed_origin_may_read_and_ask(origins: set[str]) -> None:
    """Any method and header, which the host answers itself."""
    cors = Cors(frozenset(origins))
    assert await answered("GET", cors, Origin="http://a") == {"status": "200", "Origin": "http://a"}
    assert await answered("OPTIONS", cors, Origin="http://a", **_ASKS) == {
        "status": "204",
        "Origin": "http://a",
        "Methods": "PUT",
        "Headers": "x-a",
    }


async def test_other_origin_and_no_origin_get_no_header() -> None:
    """So the browser keeps the answer from the page."""
    cors = Cors(frozenset({"http://a"}), credentials=True)
    assert await answered("GET", cors, Origin="http://b") == {"status": "200"}
    assert await answered("GET", cors) == {"status": "200"}
    assert await answered("OPTIONS", Cors(), Origin="http://a", **_ASKS) == {"status": "200"}
    assert (await answered("GET", cors, Origin="http://a"))["Credentials"] == "true"
