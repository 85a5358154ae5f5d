"""HTTP triggers, seen from a client of the running host."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from tests.host.processes import Part, traces, until

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(host: Part) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a client of the host."""
    async with aiohttp.ClientSession(host.ready, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session


async def test_function_sees_the_whole_request(http: aiohttp.ClientSession, host: Part) -> None:
    """Method, URL, lower-case headers, query without empty values, route values and body all arrive."""
    async with http.put(
        "/api/Echo/a%20b?x=1&x=2&empty=", data=b"hi", headers={"X-Mixed": "Case"}
    ) as response:
        seen = await response.json()
        assert response.status == 201
        assert response.headers["X-Echo"] == "1"
    assert seen["method"] == "PUT"
    assert seen["url"] == f"{host.ready}/api/Echo/a%20b?x=1&x=2&empty="
    assert seen["headers"]["x-mixed"] == "Case"
    assert seen["query"] == {"x": "1,2"}
    assert seen["route"] == {"name": "a b"}
    assert seen["body"] == "hi"
    assert seen["function"] == "echo"


@pytest.mark.parametrize(
    ("path", "answer"),
    [("/api/echo/12", "number 12"), ("/api/echo/fixed", "fixed"), ("/api/echo/fixed/", "fixed")],
)
async def test_most_specific_route_answers(http: aiohttp.ClientSession, path: str, answer: str) -> None:
    """A literal beats a constraint, a constraint beats a plain parameter; a text return is 200 text/plain."""
    async with http.get(path) as response:
        assert (response.status, await response.text()) == (200, answer)
        assert response.content_type == "text/plain"


async def test_header_that_is_not_utf8_is_refused(host: Part) -> None:
    """No function gets the request."""
    address = URL(host.ready)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /api/echo/fixed HTTP/1.1\r\nHost: x\r\nX-Name: J\xf6rg\r\nConnection: close\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/nothing"), ("DELETE", "/api/echo/x"), ("GET", "/admin/functions/no")]
)
async def test_unknown_path_and_wrong_method_are_404(
    http: aiohttp.ClientSession, method: str, path: str
) -> None:
    """Azure gives 404 for both."""
    async with http.request(method, path) as response:
        assert response.status == 404


@pytest.mark.parametrize("path", ["/", "/admin/host/ping"])
async def test_host_answers_that_it_runs(http: aiohttp.ClientSession, path: str) -> None:
    """To tools that look whether it does."""
    async with http.get(path) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    "path",
    ["/api/bytes", "/admin/functions/on_one"],
)
async def test_body_that_is_not_gzip_is_400(http: aiohttp.ClientSession, path: str) -> None:
    """Although its header says so: the caller's fault, at any endpoint."""
    async with http.post(path, data=b"plain", headers={"Content-Encoding": "gzip"}) as response:
        assert response.status == 400


@pytest.mark.parametrize("given", ["100", "99", "1000", "many"])
async def test_status_that_ends_no_request_is_500(
    http: aiohttp.ClientSession, host: Part, given: str
) -> None:
    """Instead of an answer that the client can't read, or waits for; the log names the function."""
    async with http.get(f"/api/status/{given}") as response:
        assert (response.status, await response.read()) == (500, b"")
    await until(lambda: "function status returned no valid response: " in host.log)
    async with http.get("/api/status/418") as response:
        assert response.status == 418


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
async def test_binary_body_is_returned_unchanged(http: aiohttp.ClientSession, size: int) -> None:
    """Bytes that are not text, none and many, are passed both ways."""
    body = bytes(range(256)) * (size // 256) + b"\xff" * (size % 256)
    async with http.post("/api/bytes", data=io.BytesIO(body)) as response:
        assert await response.read() == body
        assert response.content_type == "application/octet-stream"


async def test_body_above_azures_limit_is_413(http: aiohttp.ClientSession) -> None:
    """More than 100 MB is refused by the host itself."""
    async with http.post("/api/bytes", data=io.BytesIO(bytes(100 * 1024 * 1024 + 1))) as response:
        assert response.status == 413


async def test_head_has_no_body(http: aiohttp.ClientSession) -> None:
    """A function with the method HEAD answers with headers only."""
    async with http.head("/api/bytes") as response:
        assert (response.status, await response.read()) == (200, b"")


async def test_each_cookie_is_a_header_of_its_own(http: aiohttp.ClientSession) -> None:
    """Attributes survive the worker's cookie objects; values are escaped as ASP.NET Core does."""
    async with http.get("/api/cookies") as response:
        assert response.headers.getall("Set-Cookie") == [
            "a=1; max-age=60; path=/; samesite=lax; httponly",
            "b=x%7Cy; expires=Wed, 21 Oct 2026 07:28:00 GMT; secure",
        ]


async def test_exception_is_an_empty_500_and_a_log_line(http: aiohttp.ClientSession, host: Part) -> None:
    """The caller gets no detail; the log has the function, the invocation and the stack."""
    async with http.get("/api/raises") as response:
        assert (response.status, await response.read()) == (500, b"")
    await until(lambda: "failed: ValueError: boom" in host.log)
    assert 'raise ValueError("boom")' in host.log


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("thread", "SystemExit: exit asked by GET"),
        ("exit", "SystemExit: on purpose"),
        ("interrupt", "KeyboardInterrupt: on purpose"),
        ("cancelled", "CancelledError: on purpose"),
    ],
)
async def test_function_that_exits_fails_alone(
    http: aiohttp.ClientSession, host: Part, how: str, message: str
) -> None:
    """Its invocation has failed; the host runs on."""
    async with http.get(f"/api/exits/{how}") as response:
        assert (response.status, await response.read()) == (500, b"")
    await until(lambda: f"failed: {message}" in host.log)
    async with http.get("/api/echo/7") as response:
        assert response.ok


@pytest.mark.parametrize(("path", "function"), [("/api/echo/x", "echo"), ("/api/echo/fixed", "echo_fixed")])
async def test_log_lines_name_function_and_invocation(
    http: aiohttp.ClientSession, host: Part, path: str, function: str
) -> None:
    """Both on the loop and on a worker thread."""
    async with http.get(path) as response:
        assert response.ok
    await until(lambda: f"[{function} " in host.log)


async def test_blocking_function_is_named(http: aiohttp.ClientSession, host: Part, folder: Path) -> None:
    """An async function that blocks the loop is named in the log with its line, while it does."""

    async def text() -> str:
        async with http.get("/api/blocks") as response:
            return await response.text()

    blocked = asyncio.create_task(text())
    try:
        await until(lambda: "function blocks " in host.log)
    finally:
        (folder / "unblock").touch()
    assert await blocked == "done"
    assert "has blocked the event loop for more than 1 s at " in host.log


async def test_fastapi_app_answers_behind_a_trigger(http: aiohttp.ClientSession) -> None:
    """Status, headers and validation are FastAPI's own."""
    async with http.post("/api/web/items", json={"name": "a", "count": 2}) as created:
        assert (created.status, await created.json()) == (202, {"name": "a", "count": 2})
        assert created.headers["Location"] == "/api/web/items/a"
    async with http.get("/api/web/items/x?tag=t") as found:
        assert await found.json() == {"name": "x", "tag": "t"}
    async with http.post("/api/web/items", json={"name": "a"}) as refused:
        assert refused.status == 422
        assert (await refused.json())["detail"][0]["loc"] == ["body", "count"]
    async with http.get("/api/web/other") as missing:
        assert (missing.status, await missing.json()) == (404, {"detail": "Not Found"})


async def test_admin_lists_and_counts_functions(http: aiohttp.ClientSession) -> None:
    """In the shapes of Core Tools; the status has counters, too; a disabled function is not listed."""
    async with http.get("/api/echo/7") as response:
        assert response.ok
    async with http.get("/admin/functions") as response:
        listed = {item["name"]: item for item in await response.json()}
    async with http.get("/admin/functions/ECHO") as response:
        assert await response.json() == listed["echo"]
    async with http.get("/admin/functions/echo/status") as response:
        assert await response.json() == {}
    echo, url = listed["echo"], str(http._base_url).rstrip("/")
    assert echo["href"] == f"{url}/admin/functions/echo"
    assert echo["invoke_url_template"] == f"{url}/api/echo/{{name}}"
    assert [binding["type"] for binding in echo["config"]["bindings"]] == ["httpTrigger", "http"]
    assert echo["config"].keys() == {"name", "language", "bindings"}
    assert {
        name: value for name, value in echo.items() if name not in {"href", "invoke_url_template", "config"}
    } == {
        "name": "echo",
        "language": "python",
        "script_root_path_href": None,
        "script_href": None,
        "config_href": None,
        "test_data_href": None,
        "files": None,
        "test_data": None,
        "isDisabled": False,
        "isDirect": True,
        "isProxy": False,
    }
    assert "switched_off" not in listed
    async with http.get("/admin/host/status") as response:
        status = await response.json()
    assert status["functions"]["echo_number"]["succeeded"] >= 1
    assert status["functions"]["echo_number"]["failed"] == 0


async def test_admin_runs_a_queue_function(http: aiohttp.ClientSession, folder: Path) -> None:
    """The input is the message's body, for one message and for a batch."""
    for name in ("on_one", "on_many"):
        async with http.post(f"/admin/functions/{name}", json={"input": "by hand"}) as response:
            assert response.status == 202
    await until(lambda: [trace["body"] for trace in traces(folder, "one")] == ["by hand"])
    await until(lambda: [trace["bodies"] for trace in traces(folder, "many")] == [["by hand"]])


@pytest.mark.parametrize(
    ("name", "given", "status"),
    [("TICK", None, 202), ("tick", {}, 400), ("echo", "", 400), ("nobody", "", 404)],
)
async def test_admin_runs_only_supported_triggers(
    http: aiohttp.ClientSession, name: str, given: object, status: int
) -> None:
    """A timer needs no input, which is a text; an HTTP function is called by its route."""
    async with http.post(f"/admin/functions/{name}", json={"input": given}) as response:
        assert response.status == status
