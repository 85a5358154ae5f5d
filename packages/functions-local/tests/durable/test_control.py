"""Terminate, suspend, resume, ids that are used again, and messages that arrive as their instance ends."""

from __future__ import annotations

import asyncio
import logging

import azure.durable_functions as df
import pytest

from functions_local.durable import DurableEngine, EngineOptions, Raised, Returned
from functions_local.durable.events import RuntimeStatus
from functions_local.durable.refusals import (
    AlreadyExistsError,
    BadRequestError,
    GoneError,
    NotFinishedError,
    UnknownInstanceError,
)
from tests.durable.conftest import StartEngine
from tests.durable.sdk import SdkApp
from tests.durable.test_orchestrations import as_client
from tests.durable.workflows import Steps, result, until_status


async def test_events_wait_while_suspended(engine: DurableEngine) -> None:
    """A suspended instance keeps its messages and continues when resumed."""
    instance = await engine.client.start_new("event")
    await engine.client.suspend(instance, "hold")
    await until_status(engine, instance, RuntimeStatus.Suspended)
    await engine.client.raise_event(instance, "go", "1")
    assert (await engine.client.wait(instance, 0.1)).status is RuntimeStatus.Suspended
    await engine.client.resume(instance, "go on")
    assert (await result(engine, instance)).output == '{"event":1}'


async def test_timer_that_fires_while_suspended_counts_after_resume(engine: DurableEngine) -> None:
    """A timer waits like any message, and its effects follow after the resume."""
    waiting = {"slow": 0.0, "timer": 1.5, "cancel": False}
    instance = await engine.client.start_new("race", None, as_client(waiting))
    await engine.client.suspend(instance, None)
    await until_status(engine, instance, RuntimeStatus.Suspended)
    assert (await engine.client.wait(instance, 1.7)).status is RuntimeStatus.Suspended
    await engine.client.resume(instance, None)
    assert (await result(engine, instance)).status is RuntimeStatus.Completed


async def test_version_is_the_default_unless_one_is_given(app: SdkApp, start_engine: StartEngine) -> None:
    """The orchestrator sees it; a restart keeps it."""

    @app.orchestrator
    def tells(context: df.DurableOrchestrationContext) -> Steps:
        yield context.create_timer(context.current_utc_datetime)
        return context.version

    client = (engine := await start_engine(EngineOptions(default_version="1.0"))).client
    for given, seen in ((None, '"1.0"'), ("2.0", '"2.0"'), ("", '""')):
        instance = await client.start_new("tells", version=given)
        assert (await result(engine, instance)).output == seen
        again = await client.restart(instance, new_id=True)
        assert (await result(engine, again)).output == seen


async def test_suspended_twice_and_resumed_twice(engine: DurableEngine) -> None:
    """A second suspend or resume changes nothing."""
    instance = await engine.client.start_new("event")
    for _ in range(2):
        await engine.client.suspend(instance, None)
    await until_status(engine, instance, RuntimeStatus.Suspended)
    for _ in range(2):
        await engine.client.resume(instance, None)
    await until_status(engine, instance, RuntimeStatus.Running)
    await engine.client.raise_event(instance, "go", "2")
    assert (await result(engine, instance)).output == '{"event":2}'


async def test_terminate_works_while_suspended(engine: DurableEngine) -> None:
    """Terminated, with the reason as output."""
    instance = await engine.client.start_new("event")
    await engine.client.suspend(instance, None)
    await until_status(engine, instance, RuntimeStatus.Suspended)
    await engine.client.terminate(instance, "enough")
    row = await result(engine, instance)
    assert (row.status, row.output) == (RuntimeStatus.Terminated, "enough")


async def test_a_reused_id_drops_earlier_results(app: SdkApp, start_engine: StartEngine) -> None:
    """An activity that outlives its terminated instance does not reach the next one of that id."""
    let_go = asyncio.Event()

    @app.activity
    async def held(_: None) -> str:
        await let_go.wait()
        return "old"

    @app.orchestrator
    def holding(context: df.DurableOrchestrationContext) -> Steps:
        return (yield context.call_activity("held"))

    engine = await start_engine()
    await engine.client.start_new("holding", "same")
    await until_status(engine, "same", RuntimeStatus.Running)
    await engine.client.terminate("same", "bye")
    await result(engine, "same")
    await engine.client.start_new("event", "same")
    await until_status(engine, "same", RuntimeStatus.Running)
    let_go.set()
    assert (await engine.client.wait("same", 0.1)).status is RuntimeStatus.Running
    await engine.client.raise_event("same", "go", "3")
    assert (await result(engine, "same")).output == '{"event":3}'
    assert [body["EventType"] for body in engine.client.history("same")] == [12, 0, 13, 12, 15, 1, 13]


async def test_one_id_is_started_once(engine: DurableEngine) -> None:
    """Only one of many simultaneous starts with the same id is accepted."""
    starts = (engine.client.start_new("event", "one") for _ in range(10))
    answers = await asyncio.gather(*starts, return_exceptions=True)
    assert [answer for answer in answers if answer == "one"] == ["one"]
    assert sum(isinstance(answer, AlreadyExistsError) for answer in answers) == 9


@pytest.mark.parametrize("instance", ["", "@x@y", "a/b", "a#b", "a?b", "a\\b", "a\nb", "x" * 257])
async def test_illegal_ids_are_refused(engine: DurableEngine, instance: str) -> None:
    """Ids that URLs, table keys or entities exclude are refused."""
    with pytest.raises(BadRequestError, match="instance id"):
        await engine.client.start_new("event", instance)


async def test_refusals_name_the_reason(engine: DurableEngine) -> None:
    """Unknown, finished and live instances are refused where they must be."""
    with pytest.raises(BadRequestError, match="not an orchestrator"):
        await engine.client.start_new("nothing")
    with pytest.raises(BadRequestError, match="at most 1048576"):
        await engine.client.start_new("event", None, "1" * (2 << 20))
    with pytest.raises(UnknownInstanceError):
        await engine.client.raise_event("nobody", "go", None)
    instance = await engine.client.start_new("event")
    with pytest.raises(NotFinishedError):
        await engine.client.purge(instance)
    await engine.client.terminate(instance, None)
    await result(engine, instance)
    with pytest.raises(GoneError, match="Terminated"):
        await engine.client.raise_event(instance, "go", None)


@pytest.mark.parametrize("kind", ["sub", "sub_retry", "entity", "signal", "http"])
async def test_unsupported_actions_fail_with_their_name(
    app: SdkApp, start_engine: StartEngine, kind: str
) -> None:
    """Sub-orchestrations, entities and call_http are refused, not left hanging."""

    @app.orchestrator
    def ambitious(context: df.DurableOrchestrationContext) -> Steps:
        match kind:
            case "sub":
                yield context.call_sub_orchestrator("chain", 1)
            case "sub_retry":
                yield context.call_sub_orchestrator_with_retry("chain", df.RetryOptions(10, 1), 1)
            case "entity":
                yield context.call_entity(df.EntityId("counter", "k"), "get")
            case "signal":
                context.signal_entity(df.EntityId("counter", "k"), "add", 1)
                yield context.call_activity("add_one", 1)
            case _:
                yield context.call_http("GET", "http://127.0.0.1/")

    engine = await start_engine()
    row = await result(engine, await engine.client.start_new("ambitious"))
    assert row.status is RuntimeStatus.Failed
    assert (row.output or "").endswith("is not supported by the local host")
    assert engine.figures().get("activities_run", 0) == 0


DROPPED = "Event 'late' for orchestration i arrived as it ended, and is dropped"


@pytest.mark.parametrize("in_the_same_commit", [False, True])
async def test_an_event_for_an_instance_that_ends_is_logged(
    app: SdkApp, start_engine: StartEngine, caplog: pytest.LogCaptureFixture, *, in_the_same_commit: bool
) -> None:
    """Whether it was committed before the end or together with it."""
    engines: list[DurableEngine] = []
    sending: list[asyncio.Task[None]] = []

    async def answer_and_send(function: str, parameter: str, payload: str) -> Returned | Raised:
        answer = await app.invoke(function, parameter, payload)
        if isinstance(answer, Returned) and '"isDone":true' in (answer.json or "").replace(" ", ""):
            # The engine commits without another await, so the task runs in the same loop iteration.
            sending.append(asyncio.create_task(engines[0].client.raise_event("i", "late", "1")))
            if not in_the_same_commit:
                await sending[0]
        return answer

    engines.append(await start_engine(None, answer_and_send))
    with caplog.at_level(logging.INFO, "functions_local.durable"):
        await engines[0].client.start_new("chain", "i", as_client(1))
        assert (await result(engines[0], "i")).output == "1"
        await sending[0]
    assert caplog.messages.count(DROPPED) == 1


async def test_nothing_is_logged_when_nothing_is_dropped(
    engine: DurableEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """A timer that is left when its instance ends is not a client's message."""
    with caplog.at_level(logging.INFO, "functions_local.durable"):
        race = as_client({"slow": 0, "timer": 0.1, "cancel": True})
        await result(engine, await engine.client.start_new("race", None, race))
    assert "dropped" not in caplog.text
