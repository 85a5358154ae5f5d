"""Every method of the SDK's own client, over HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import azure.durable_functions as df
import azure.functions as func
import pytest
from azure.durable_functions.models.utils import http_utils

from functions_local.durable import DurableEngine
from functions_local.durable.events import RuntimeStatus
from tests.durable.conftest import ApiClient
from tests.durable.workflows import result, until_status

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["by request", "in the process"])
async def client(
    engine: DurableEngine, http: ApiClient, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[df.DurableOrchestrationClient]:
    """Return the SDK's client, made from the engine's binding; its starts go both ways."""
    monkeypatch.setattr(
        sys.modules[df.DurableOrchestrationClient.__module__],
        "post_async_request",
        http_utils.post_async_request,
    )
    if request.param == "in the process":
        engine.make_starts_cheaper(str(http.make_url("/")).rstrip("/"))
    yield df.DurableOrchestrationClient(engine.client_binding(str(http.make_url("/"))), "invocation")
    await http_utils._close_session()


async def test_start_and_status(client: df.DurableOrchestrationClient, engine: DurableEngine) -> None:
    """A start returns its id; the status has name, input and output."""
    instance = await client.start_new("chain", client_input=3)
    await result(engine, instance)
    status = await client.get_status(instance, show_history=True, show_history_output=True, show_input=True)
    assert status.runtime_status is df.OrchestrationRuntimeStatus.Completed
    assert (status.name, status.output, status.input_) == ("chain", 3, "3")
    assert [event["EventType"] for event in status.historyEvents] == [
        "ExecutionStarted", "TaskCompleted", "TaskCompleted", "TaskCompleted", "ExecutionCompleted",
    ]  # fmt: skip
    assert status.historyEvents[1]["FunctionName"] == "add_one"
    assert status.historyEvents[1]["Result"] == 1
    assert "ScheduledTime" in status.historyEvents[1]


async def test_start_in_the_process_makes_no_request(
    engine: DurableEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same instance with the same input, whatever characters are in it."""
    sdk = sys.modules[df.DurableOrchestrationClient.__module__]
    monkeypatch.setattr(sdk, "post_async_request", None)
    monkeypatch.setattr(http_utils, "_get_session", None)
    engine.make_starts_cheaper("http://127.0.0.1:1")
    client = df.DurableOrchestrationClient(engine.client_binding("http://127.0.0.1:1"), "invocation")
    assert await client.start_new("chain", "order-1.1", 3) == "order-1.1"
    assert (await result(engine, "order-1.1")).output == "3"
    assert await client.start_new("event", "order-2", {"größe": '"1"'}) == "order-2"
    row = engine.client.find("order-2")
    assert json.loads(json.loads(row.input or "")) == {"größe": '"1"'}


async def test_refused_starts_have_clear_errors(client: df.DurableOrchestrationClient) -> None:
    """An unknown orchestrator and an id in use raise with the engine's text."""
    with pytest.raises(Exception, match="The function 'nope' doesn't exist"):
        await client.start_new("nope")
    assert await client.start_new("event", "taken") == "taken"
    with pytest.raises(Exception, match="already exists"):
        await client.start_new("event", "taken")


async def test_missing_instance(client: df.DurableOrchestrationClient) -> None:
    """Its status is false, an event raises, and a purge deletes nothing."""
    assert not await client.get_status("nobody")
    with pytest.raises(Exception, match="No instance with ID nobody found"):
        await client.raise_event("nobody", "go", 1)
    assert (await client.purge_instance_history("nobody")).instances_deleted == 0


async def test_event_payload_arrives_as_a_json_string(
    client: df.DurableOrchestrationClient, engine: DurableEngine
) -> None:
    """SDK 1.7.0 encodes an event's payload twice and decodes it once; the engine does not repair that."""
    await client.start_new("event", "e1")
    await client.raise_event("e1", "go", {"a": 1})
    row = await result(engine, "e1")
    assert json.loads(row.output or "") == {"event": '{"a": 1}'}
    with pytest.raises(Exception, match="is gone"):
        await client.raise_event("e1", "go", 1)


async def test_suspend_resume_terminate(client: df.DurableOrchestrationClient, engine: DurableEngine) -> None:
    """Each works, and terminating twice is no error."""
    await client.start_new("event", "e2")
    await client.suspend("e2", "pause it")
    await until_status(engine, "e2", RuntimeStatus.Suspended)
    await client.resume("e2", "go on")
    await until_status(engine, "e2", RuntimeStatus.Running)
    await client.terminate("e2", "stop now")
    assert (await result(engine, "e2")).output == "stop now"
    await client.terminate("e2", "again")


async def test_lists_and_purges(client: df.DurableOrchestrationClient, engine: DurableEngine) -> None:
    """Filters by prefix, status and time find what they name."""
    for name in ("a1", "a2", "b1"):
        await client.start_new("event", name)
    await client.terminate("a1", "x")
    await result(engine, "a1")
    assert len(await client.get_status_all()) == 3
    running = [df.OrchestrationRuntimeStatus.Running, df.OrchestrationRuntimeStatus.Pending]
    found = await client.get_status_by(_LONG_AGO, None, running, instance_id_prefix="a")
    assert [status.instance_id for status in found] == ["a2"]
    terminated = [df.OrchestrationRuntimeStatus.Terminated]
    assert (await client.purge_instance_history_by(_LONG_AGO, None, terminated)).instances_deleted == 1
    assert (await client.purge_instance_history_by(_LONG_AGO)).instances_deleted == 0
    with pytest.raises(Exception, match="412"):
        await client.purge_instance_history("a2")
    await client.terminate("a2", "x")
    await result(engine, "a2")
    assert (await client.purge_instance_history("a2")).instances_deleted == 1


async def test_restart(client: df.DurableOrchestrationClient, engine: DurableEngine) -> None:
    """A restart has the same input, under a new id or the old one."""
    await client.start_new("chain", "old", 2)
    await result(engine, "old")
    answer = await client.restart("old")
    assert (await result(engine, answer["id"])).output == "2"
    first = engine.client.find("old").execution
    assert (await client.restart("old", restart_with_new_instance_id=False))["id"] == "old"
    assert (await result(engine, "old")).execution != first


async def test_unsupported_requests_are_refused(client: df.DurableOrchestrationClient) -> None:
    """Rewind and entities answer 501 with the reason."""
    await client.start_new("event", "e3")
    with pytest.raises(Exception, match="Rewinding an orchestration is not supported"):
        await client.rewind("e3", "why")
    with pytest.raises(Exception, match="501"):
        await client.signal_entity(df.EntityId("counter", "k"), "add", 1)
    with pytest.raises(Exception, match="501"):
        await client.read_entity_state(df.EntityId("counter", "k"))


async def test_wait_for_completion(client: df.DurableOrchestrationClient) -> None:
    """The SDK's own wait returns the output, or the management URLs of this origin."""
    request = func.HttpRequest("POST", "http://localhost:9999/api/x", body=b"")
    instance = await client.start_new("chain", None, 1)
    done = await client.wait_for_completion_or_create_check_status_response(request, instance, 20000, 20)
    assert (done.status_code, done.get_body()) == (200, b"1")
    instance = await client.start_new("event")
    pending = await client.wait_for_completion_or_create_check_status_response(request, instance, 40, 20)
    assert pending.status_code == 202
    url = json.loads(pending.get_body())["statusQueryGetUri"]
    assert url.startswith(
        f"http://localhost:9999/runtime/webhooks/durabletask/instances/{instance}?taskHub=TestHub"
    )
