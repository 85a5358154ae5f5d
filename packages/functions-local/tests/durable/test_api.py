"""The management API as a plain HTTP client sees it."""

from __future__ import annotations

import asyncio

import azure.durable_functions as df
import pytest
from aiohttp import ClientResponse
from yarl import URL

from functions_local.durable import DurableEngine, EngineOptions
from functions_local.durable.answers import history_events
from tests.durable.conftest import ApiClient, StartEngine
from tests.durable.sdk import SdkApp
from tests.durable.workflows import Steps, result, until

_API = "/runtime/webhooks/durabletask"


async def test_start_answers_with_management_urls(http: ApiClient) -> None:
    """202, where to look and when, and no rewind URL."""
    answer = await http.post(f"{_API}/orchestrators/chain/c1", data=b'{"a": 1}')
    urls = await answer.json()
    assert answer.status == 202
    assert answer.headers["Retry-After"] == "10"
    assert answer.headers["Location"] == urls["statusQueryGetUri"]
    assert urls["id"] == "c1"
    assert "rewindPostUri" not in urls


async def test_urls_escape_the_id(http: ApiClient) -> None:
    """Each leads back to the instance."""
    answer = await http.post(URL(f"{_API}/orchestrators/chain/100%2541%20%C3%BC", encoded=True))
    urls = await answer.json()
    assert urls["id"] == "100%41 ü"
    assert "/instances/100%2541%20%C3%BC?" in urls["purgeHistoryDeleteUri"]
    status = await http.get(URL(answer.headers["Location"], encoded=True).relative())
    assert (await status.json())["instanceId"] == "100%41 ü"


async def test_unsupported_request_is_logged(http: ApiClient, caplog: pytest.LogCaptureFixture) -> None:
    """The SDK's client passes only the status to the app."""
    assert (await http.get(f"{_API}/entities/counter/k")).status == 501
    assert "Entities are not supported by the local host" in caplog.messages


async def test_status_codes_follow_the_instance(http: ApiClient, engine: DurableEngine) -> None:
    """202 while it runs, 200 when it has ended, 500 on demand if it failed, 404 without body if unknown."""
    await http.post("/durabletask/orchestrators/event/e")
    running = await http.get("/durabletask/instances/e")
    assert (running.status, running.headers["Retry-After"]) == (202, "5")
    await http.post("/durabletask/orchestrators/fails/f")
    await result(engine, "f")
    failed = await http.get("/durabletask/instances/f?showInput=false")
    assert failed.status == 200
    assert (await failed.json())["output"] == "Orchestrator function 'fails' failed: orchestrator failed"
    assert (await http.get("/durabletask/instances/f?returnInternalServerErrorOnFailure=true")).status == 500
    unknown = await http.get("/durabletask/instances/zzz")
    assert (unknown.status, await unknown.read()) == (404, b"")


async def test_history_shows_activities_in_flight_and_their_inputs(
    app: SdkApp, start_engine: StartEngine
) -> None:
    """An activity is the event that scheduled it until it completes; inputs where host.json keeps them."""
    release = asyncio.Event()

    @app.activity
    async def held(_given: object) -> None:
        await release.wait()

    @app.orchestrator
    def one(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("held", {"n": 1})

    engine = await start_engine(EngineOptions(store_inputs=True))
    await engine.client.start_new("one", "i", '"x"')
    await until(lambda: app.calls == ["held"])
    shown = history_events(engine.client.history("i"), show_input=True, show_output=True)
    assert [(event["EventType"], event["Input"]) for event in shown] == [
        ("ExecutionStarted", "x"),
        ("TaskScheduled", {"n": 1}),
    ]
    assert shown[1]["Name"] == "held"
    release.set()
    await result(engine, "i")
    shown = history_events(engine.client.history("i"), show_input=True, show_output=True)
    assert [(event["EventType"], event.get("Input")) for event in shown] == [
        ("ExecutionStarted", "x"),
        ("TaskCompleted", {"n": 1}),
        ("ExecutionCompleted", None),
    ]
    hidden = history_events(engine.client.history("i"), show_input=False, show_output=True)
    assert not any("Input" in event for event in hidden)


async def test_bodies_are_stored_without_repair(http: ApiClient, engine: DurableEngine) -> None:
    """A JSON string stays a string in `input`, an object stays an object."""
    await http.post(f"{_API}/orchestrators/event/s", data=b'"{\\"a\\": 1}"')
    await http.post(f"{_API}/orchestrators/event/o", data=b'{"a": [1,  2], "\\ud800": "\xc3\xa9"}')
    assert engine.client.find("s").input == '"{\\"a\\": 1}"'
    assert (await (await http.get(f"{_API}/instances/s")).json())["input"] == '{"a": 1}'
    assert (await (await http.get(f"{_API}/instances/o")).json())["input"]["a"] == [1, 2]


async def test_start_can_wait_for_the_end(http: ApiClient) -> None:
    """With a timeout a start returns the output, or the usual response if that takes too long."""
    done = await http.post(f"{_API}/orchestrators/chain?timeout=60&pollingInterval=1", data=b'"1"')
    assert (done.status, await done.json()) == (200, 1)
    failed = await http.post(f"{_API}/orchestrators/fails?timeout=60")
    assert (failed.status, (await failed.json())["runtimeStatus"]) == (500, "Failed")
    assert (await http.post(f"{_API}/orchestrators/event?timeout=0.05")).status == 202


async def test_lists_come_in_pages(http: ApiClient) -> None:
    """Pages of `top` instances, oldest first, joined by the continuation token, each instance once."""
    for number in range(7):
        await http.post(f"{_API}/orchestrators/event/p{number}")
    seen: list[str] = []
    token = ""
    for size in (3, 3, 1):
        page = await http.get(f"{_API}/instances?top=3", headers={"x-ms-continuation-token": token})
        rows = await page.json()
        assert len(rows) == size
        seen += [row["instanceId"] for row in rows]
        token = page.headers.get("x-ms-continuation-token", "")
    assert seen == [f"p{number}" for number in range(7)]
    assert not token


async def test_a_page_has_100_instances_by_default(http: ApiClient, engine: DurableEngine) -> None:
    """The extension's default, which SDK 1.7.0 cannot change."""
    for _ in range(101):
        await engine.client.start_new("event")
    page = await http.get(f"{_API}/instances/")
    assert len(await page.json()) == 100
    assert "x-ms-continuation-token" in page.headers


@pytest.mark.parametrize(
    ("method", "path", "data", "text"),
    [
        ("POST", "orchestrators/chain", b"{", "not JSON"),
        ("POST", "orchestrators/nope", b"", "not an orchestrator function"),
        ("POST", "orchestrators/chain/%40x", b"", "instance id"),
        ("GET", "instances?top=many", None, "must be a number"),
        ("POST", "orchestrators/chain", b"\xff", "not JSON"),
        ("POST", "orchestrators/chain", b"[" * 100_000, "not JSON"),
        ("GET", "instances?top=-1", None, "must be from 0 to"),
        ("GET", "instances?top=nan", None, "must be from 0 to"),
        ("GET", "instances?top=1e30", None, "must be from 0 to"),
        ("GET", "instances?createdTimeFrom=0001-01-01T00:00%2B10:00", None, "ISO 8601"),
        ("GET", "instances?createdTimeFrom=yesterday", None, "ISO 8601"),
        ("GET", "instances?runtimeStatus=Asleep", None, "not one of Running"),
        ("DELETE", "instances", None, "createdTimeFrom"),
    ],
)
async def test_bad_requests_name_the_fault(
    http: ApiClient, method: str, path: str, data: bytes | None, text: str
) -> None:
    """400, worded for the SDK, which shows `ExceptionMessage`."""
    answer = await http.request(method, f"{_API}/{path}", data=data)
    assert answer.status == 400
    assert text in (await answer.json())["ExceptionMessage"]


async def test_operations_are_not_case_sensitive(http: ApiClient, engine: DurableEngine) -> None:
    """As in the extension; unknown ones are 404."""
    await http.post(f"{_API}/orchestrators/event/x")
    raised = await http.post(f"{_API}/instances/x/RAISEEVENT/go", json=1)
    assert raised.status == 202
    assert (await result(engine, "x")).output == '{"event":1}'
    assert (await http.post(f"{_API}/instances/x/Terminate?reason=late")).status == 410
    assert (await http.post(f"{_API}/instances/x/explode")).status == 404
    assert (await http.post(f"{_API}/instances/x/explode/go", json=1)).status == 404


async def test_events_must_be_json(http: ApiClient) -> None:
    """Another content type is refused, as is a broken continuation token."""
    await http.post(f"{_API}/orchestrators/event/j")

    async def refused(answer: ClientResponse) -> str:
        assert answer.status == 400
        return str((await answer.json())["ExceptionMessage"])

    answer = await http.post(
        f"{_API}/instances/j/raiseEvent/go", data=b"1", headers={"Content-Type": "text/plain"}
    )
    assert "application/json" in await refused(answer)
    unknown = {"Content-Type": "application/json; charset=x"}
    answer = await http.post(f"{_API}/instances/j/raiseEvent/go", data=b"1", headers=unknown)
    assert "not JSON" in await refused(answer)
    for token in ("%%%", "NQ==", "W3t9LDFd"):  # base64 of nothing, of 5, of [{},1]
        answer = await http.get(f"{_API}/instances", headers={"x-ms-continuation-token": token})
        assert "continuation token" in await refused(answer)


async def test_a_stopped_engine_answers_503(http: ApiClient, engine: DurableEngine) -> None:
    """Its routes still exist, and report that it has stopped."""
    await engine.stop()
    assert (await http.get(f"{_API}/instances")).status == 503
