"""Small apps of every kind: each works, or is refused with a sentence that the README has, too."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from azure.servicebus.aio import ServiceBusClient

from tests.host.processes import (
    PATIENCE,
    ROOT,
    Part,
    broker_port,
    connection_string,
    print_queues,
    run_to_its_end,
    start_broker,
    start_host,
)

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_spec("servicebus_local") is None, reason="needs the package servicebus-local"),
]

APPS = Path(__file__).parent / "apps"
SETTINGS = {"HUB": "Apps", "AzureFunctionsJobHost__extensions__http__routePrefix": "v1", "Bus": "x"}
_API = "/runtime/webhooks/durabletask"
_LACKS = "which the local host does not support"
_DURABLE_2 = "azure-functions-durable 2.x"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(folder: Path) -> AsyncIterator[Part]:
    """Run a broker with the queues of the apps that work."""
    config = folder / "queues.json"
    config.write_text(json.dumps(print_queues(APPS / "works", **SETTINGS)))
    part = await start_broker(folder, config=config)
    yield part
    await part.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(folder: Path, broker: Part) -> AsyncIterator[Part]:
    """Run the apps that work, in one process."""
    settings = {**SETTINGS, "Bus": connection_string(broker_port(broker))}
    part = await start_host(folder, app=APPS / "works", settings=settings)
    yield part
    assert await part.stop() == 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(host: Part) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a client of the host."""
    async with aiohttp.ClientSession(host.ready) as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bus(broker: Part) -> AsyncIterator[ServiceBusClient]:
    """Return a client of the broker."""
    address = connection_string(broker_port(broker))
    async with ServiceBusClient.from_connection_string(address, retry_total=0) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refused(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """Return the lines with which the host refuses to start, by app."""
    apps = ("refused", "streaming", "durable2", "model_v1")

    async def lines(app: str) -> list[str]:
        options = ("--port", 0, "--data", tmp_path_factory.mktemp(app))
        code, out, err = await run_to_its_end(APPS / app, *options, **SETTINGS)
        assert (code, out) == (2, "")
        return [line.removeprefix("error: ") for line in err.splitlines()]

    return dict(zip(apps, await asyncio.gather(*map(lines, apps)), strict=True))


async def received(bus: ServiceBusClient, queue: str, *, texts: int) -> list[str]:
    """Return the texts of a queue's messages, joined ones one by one, when that many have arrived."""
    found: list[str] = []
    async with bus.get_queue_receiver(queue) as receiver, asyncio.timeout(PATIENCE):
        while len(found) < texts:
            for message in await receiver.receive_messages(10, max_wait_time=5):
                found += str(message).split()
                await receiver.complete_message(message)
    return sorted(found)


async def outcome(http: aiohttp.ClientSession, orchestrator: str, given: Any, event: Any = None) -> Any:
    """Start an orchestration, send it an event if there is one, and return its status when it has ended."""
    path, body = f"{_API}/orchestrators/{orchestrator}", json.dumps(given)  # as the SDK's client encodes it
    if event is None:
        async with http.post(f"{path}?timeout={PATIENCE:.0f}", json=body) as response:
            return await response.json()
    async with http.post(path, json=body) as response:
        urls = await response.json()
    async with http.post(urls["sendEventPostUri"].replace("{eventName}", "Approval"), json=event) as sent:
        assert sent.status == 202
    return await ended(http, urls["statusQueryGetUri"])


def table() -> list[str]:
    """Return the sentences of the README's table of unsupported features."""
    section = (ROOT / "README.md").read_text().partition("## Not supported")[2].partition("\n## ")[0]
    rows = [row.split("|") for row in section.splitlines() if row.startswith("|")][2:]
    return [sentence.strip(" `") for _, _, sentence, _ in rows]


async def ended(http: aiohttp.ClientSession, status_url: str) -> Any:
    """Return an orchestration's output when it has ended."""
    async with asyncio.timeout(PATIENCE):
        while True:
            async with http.get(status_url) as response:
                if response.status == 200:
                    return (await response.json())["output"]
            await asyncio.sleep(0.02)


async def test_http_answers_with_the_returned_or_set_value(http: aiohttp.ClientSession) -> None:
    """Below the prefix that a setting gives, with the headers that host.json adds."""
    async with http.get("/v1/text/you") as response:
        assert (await response.text(), response.headers["X-Made-By"]) == ("Hello, you!", "apps")
    async with http.post("/v1/response", data=b"body") as response:
        assert (response.status, await response.text()) == (201, "body")
        assert response.headers["X-Made-By"] == "response"


async def test_messages_go_from_queue_to_queue(http: aiohttp.ClientSession, bus: ServiceBusClient) -> None:
    """Set on an output or returned, one by one or in batches; a JSON array is as many messages."""
    async with http.post("/v1/send", json=["a", "b", {"c": 1}]) as response:
        assert await response.text() == "sent"
    async with http.post("/v1/send", data="[d") as response:
        assert response.ok
    assert await received(bus, "out", texts=5) == ["1}", "A", "B", "[D", '{"C":']


async def test_timer_runs_at_the_start(host: Part, bus: ServiceBusClient) -> None:
    """And what it returns is sent."""
    assert host.ready
    assert await received(bus, "ticks", texts=4) == sorted(["tick,", "past", "due:", "False"])


@pytest.mark.parametrize(
    ("orchestrator", "given", "event", "expected"),
    [
        ("chain", "x", None, "Hello Hello x"),
        ("fan_out", 10, None, 285),
        ("approval", 60, "yes", "yes"),
        ("approval", 0, None, "nobody answered"),
        ("monitor", None, None, "third time"),
    ],
)
async def test_orchestrations_end_as_in_azure(
    http: aiohttp.ClientSession, orchestrator: str, given: Any, event: Any, expected: Any
) -> None:
    """One after the other, many at once, a person's answer or none, and looking until it is so."""
    assert await outcome(http, orchestrator, given, event) == expected


async def test_durable_client_starts_one(http: aiohttp.ClientSession) -> None:
    """From an HTTP function, which answers with the URLs of the instance."""
    async with http.get("/v1/chain/me") as response:
        assert response.status == 202
        status_url = response.headers["Location"]
    assert await ended(http, status_url) == "Hello Hello me"


async def test_functions_that_run_too_long_are_ended(http: aiohttp.ClientSession, host: Part) -> None:
    """At functionTimeout an invocation fails; the host continues, and its stop does not wait for it."""

    async def status(kind: str) -> int:
        async with http.get(f"/v1/too_long/{kind}") as response:
            return response.status

    assert await asyncio.gather(*map(status, ("async", "thread", "disobeys"))) == [500] * 3
    assert host.log.count("failed: it was ended at functionTimeout (10 s)") == 3


async def test_each_part_that_is_not_supported_is_named_at_start(refused: Mapping[str, list[str]]) -> None:
    """One line for each function and binding, in either direction; missing settings don't come first."""
    found = re.findall(rf"function (\S+) has (.*), {_LACKS}", "\n".join(refused["refused"]))
    assert sorted(found) == [
        ("counter", "the trigger entityTrigger (context)"),
        ("on_blob", "the trigger blobTrigger (blob)"),
        ("on_event", "an Event Hubs trigger for one event at a time (event)"),
        ("on_queue", "the trigger queueTrigger (message)"),
        ("on_rows", "the trigger cosmosDBTrigger (rows)"),
        ("on_sdk_message", "an SDK type as its parameter (message)"),
        ("on_session", "sessions on its Service Bus trigger (message)"),
        ("on_topic", "a Service Bus topic as trigger (message)"),
        ("reads_blob", "the input binding blob (blob)"),
        ("reads_document", "the input binding cosmosDB (document)"),
        ("reads_row", "the input binding table (row)"),
        ("sends_event", "the output binding eventHub ($return)"),
        ("sends_to_queue", "the output binding queue (message)"),
        ("sends_to_topic", "a Service Bus topic as output binding (message)"),
        ("settles", "a settlement client as its parameter (actions)"),
        ("writes", "the output binding blob (blob)"),
        ("writes", "the output binding table (row)"),
    ]


@pytest.mark.parametrize(
    ("app", "start"),
    [
        ("streaming", "function stream has HTTP streaming (req)"),
        ("durable2", f"function orchestrator has the binding orchestrationTrigger (context) of {_DURABLE_2}"),
        ("model_v1", "function hello is of the v1 programming model (hello/function.json)"),
    ],
)
async def test_app_of_another_kind_is_refused(refused: Mapping[str, list[str]], app: str, start: str) -> None:
    """Streaming, Durable 2.x, and the v1 model: one line, no stack."""
    [line] = refused[app]
    assert line.startswith(f"{start}, {_LACKS}")


async def test_what_is_lacking_is_said_as_in_the_readme(
    http: aiohttp.ClientSession, refused: Mapping[str, list[str]]
) -> None:
    """Each row of the table is what a start or a call says, and they say nothing that is not in it."""
    said = {line.partition(f", {_LACKS}")[0] for lines in refused.values() for line in lines}
    for name in ("calls_orchestrator", "calls_http", "calls_entity", "signals_entity"):
        status = await outcome(http, name, None)
        assert status["runtimeStatus"] == "Failed"
        said.add(status["output"])
    for path in ("entities/counter/k?op=add", "instances/x/rewind?reason=y"):
        async with http.post(f"{_API}/{path}") as response:
            assert response.status == 501
            said.add((await response.json())["Message"])
    rows = [re.sub("FUNCTION|KIND|PARAMETER", r"\\S+", re.escape(row)) for row in table()]
    assert [row for row in rows if not any(re.fullmatch(row, line) for line in said)] == []
    assert [line for line in said if not any(re.fullmatch(row, line) for row in rows)] == []


@pytest.mark.parametrize(("app", "warnings"), [("refused", 17), ("durable2", 1)])
async def test_rest_of_the_app_starts_if_asked(tmp_path: Path, app: str, warnings: int) -> None:
    """--skip-unsupported leaves functions out, each with a warning."""
    part = await start_host(tmp_path, "--skip-unsupported", app=APPS / app, settings=SETTINGS)
    async with aiohttp.ClientSession(part.ready) as http, http.get("/v1/left") as response:
        assert await response.text() == "GET"
    assert part.log.count(f"{_LACKS}: the function is left out") == warnings
    await part.stop()
