"""What an orchestration can do, from start to end, with the real SDK."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path

import azure.durable_functions as df
import pytest

from functions_local.durable import DurableEngine, EngineOptions
from functions_local.durable.events import RuntimeStatus
from tests.durable.conftest import StartEngine
from tests.durable.sdk import SdkApp
from tests.durable.workflows import Steps, result, until_status


def as_client(value: object) -> str:
    """Encode an input as the SDK's client does: JSON in a JSON string."""
    return json.dumps(json.dumps(value))


async def test_activities_run_one_after_the_other(engine: DurableEngine) -> None:
    """A chain of activities returns what the last one returned."""
    row = await result(engine, await engine.client.start_new("chain", None, as_client(5)))
    assert (row.status, row.output) == (RuntimeStatus.Completed, "5")
    assert engine.figures()["activities_run"] == 5


async def test_activities_run_concurrently(engine: DurableEngine) -> None:
    """WhenAll returns all results."""
    row = await result(engine, await engine.client.start_new("fan_out", None, as_client(30)))
    assert row.output == str(sum(range(1, 31)))


async def test_failure_texts_are_the_extensions(engine: DurableEngine) -> None:
    """An activity's failure has two spaces before the error, an orchestrator's names the function."""
    row = await result(engine, await engine.client.start_new("fails"))
    assert row.status is RuntimeStatus.Failed
    assert row.output == "Orchestrator function 'fails' failed: orchestrator failed"
    assert json.loads(row.custom_status or "")["seen"].startswith(
        "Activity function 'boom' failed:  ValueError: boom x"
    )


async def test_unknown_activity_fails_its_task(app: SdkApp, start_engine: StartEngine) -> None:
    """In Azure the instance would stay Running; here the orchestrator sees the reason."""

    @app.orchestrator
    def lost(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("nowhere", 1)

    engine = await start_engine()
    row = await result(engine, await engine.client.start_new("lost"))
    assert "The function 'nowhere' doesn't exist, is disabled, or is not an activity function" in (
        row.output or ""
    )


async def test_event_reaches_its_waiter_and_custom_status_is_kept(engine: DurableEngine) -> None:
    """An event wakes the orchestrator; the custom status is the last one set."""
    instance = await engine.client.start_new("event")
    await until_status(engine, instance, RuntimeStatus.Running)
    assert engine.client.find(instance).custom_status == '"waiting"'
    await engine.client.raise_event(instance, "go", '{"a":1}')
    row = await result(engine, instance)
    assert (row.output, row.custom_status) == ('{"event":{"a":1}}', '{"got":{"a":1}}')


async def test_event_before_the_first_episode_is_kept(engine: DurableEngine) -> None:
    """A Pending instance accepts events."""
    instance = await engine.client.start_new("event")
    await engine.client.raise_event(instance, "go", "1")
    assert (await result(engine, instance)).output == '{"event":1}'


async def test_two_early_events_of_one_name_follow_the_sdk(app: SdkApp, start_engine: StartEngine) -> None:
    """One early event satisfies both waits in the SDK, but in Durable Task only a second one does."""

    @app.orchestrator
    def two_events(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("slow", 0.05)
        first = yield context.wait_for_external_event("e")
        second = yield context.wait_for_external_event("e")
        return [first, second]

    engine = await start_engine()
    instance = await engine.client.start_new("two_events")
    await engine.client.raise_event(instance, "e", "1")
    assert (await engine.client.wait(instance, 0.3)).status is RuntimeStatus.Running
    await engine.client.raise_event(instance, "e", "2")
    assert (await result(engine, instance)).status is RuntimeStatus.Completed


async def test_open_timer_holds_completion(engine: DurableEngine) -> None:
    """As in Azure, an instance does not complete while a timer that lost its race is open."""
    begin = time.monotonic()
    held = await engine.client.start_new("race", None, as_client({"slow": 0, "timer": 600, "cancel": False}))
    late = await engine.client.start_new("race", None, as_client({"slow": 0, "timer": 1.5, "cancel": False}))
    soon = await engine.client.start_new("race", None, as_client({"slow": 0, "timer": 600, "cancel": True}))
    assert (await result(engine, soon)).output == '"activity"'
    assert (await result(engine, late)).output == '"activity"'
    assert time.monotonic() - begin >= 1.5
    assert engine.client.find(held).status is RuntimeStatus.Running


async def test_timer_never_fires_early(engine: DurableEngine) -> None:
    """A timer that wins its race has waited its full time."""
    begin = time.monotonic()
    instance = await engine.client.start_new(
        "race", None, as_client({"slow": 0.5, "timer": 0.2, "cancel": False})
    )
    assert (await result(engine, instance)).output == '"timer"'
    assert time.monotonic() - begin >= 0.5  # the losing activity holds completion, too


async def test_failed_task_all_waits_for_its_siblings(app: SdkApp, start_engine: StartEngine) -> None:
    """After a failure in WhenAll, the next action starts only when every sibling has ended."""

    @app.orchestrator
    def gate(context: df.DurableOrchestrationContext) -> Steps:
        try:
            yield context.task_all([context.call_activity("boom", "x"), context.call_activity("slow", 0.3)])
        except Exception:  # noqa: BLE001 - the SDK raises nothing more precise
            return (yield context.call_activity("add_one", 1))

    engine = await start_engine()
    instance = await engine.client.start_new("gate")
    assert (await result(engine, instance)).output == "2"
    history = engine.client.history(instance)
    sibling_ended = next(n for n, body in enumerate(history) if body.get("TaskScheduledId") == 1)
    next_begun = next(n for n, body in enumerate(history) if body["EventType"] == 4 and body["EventId"] == 2)
    assert sibling_ended < next_begun


@pytest.mark.parametrize(("failures", "status"), [(2, RuntimeStatus.Completed), (3, RuntimeStatus.Failed)])
async def test_retries_are_made_by_the_engine(
    app: SdkApp, start_engine: StartEngine, failures: int, status: RuntimeStatus
) -> None:
    """An activity with retry runs until it succeeds or its attempts are used up."""

    @app.activity
    def flaky(_: None) -> str:
        if app.calls.count("flaky") <= failures:
            raise RuntimeError(f"attempt {app.calls.count('flaky')}")
        return "ok"

    @app.orchestrator
    def retrying(context: df.DurableOrchestrationContext) -> Steps:
        return (yield context.call_activity_with_retry("flaky", df.RetryOptions(20, 3)))

    engine = await start_engine()
    row = await result(engine, await engine.client.start_new("retrying"))
    assert row.status is status
    assert app.calls.count("flaky") == 3
    if status is RuntimeStatus.Failed:
        assert "RuntimeError: attempt 3" in (row.output or "")


async def test_continue_as_new_begins_a_new_generation(engine: DurableEngine) -> None:
    """Each generation has a new execution and only its own history."""
    instance = await engine.client.start_new("counting")
    first = engine.client.find(instance).execution
    row = await result(engine, instance)
    assert row.output == "3"
    assert row.execution != first
    assert engine.figures()["activities_run"] == 3
    assert sum(body["EventType"] == 5 for body in engine.client.history(instance)) == 1


async def test_continue_as_new_carries_unread_events(app: SdkApp, start_engine: StartEngine) -> None:
    """Events that a generation did not read reach the next one, in order."""

    @app.orchestrator
    def collector(context: df.DurableOrchestrationContext) -> Steps:
        seen = context.get_input() or []
        value = yield context.wait_for_external_event(f"e{len(seen)}")
        if len(seen) == 2:
            return [*seen, value]
        context.continue_as_new([*seen, value])
        return None

    engine = await start_engine()
    instance = await engine.client.start_new("collector")
    for name in ("e2", "e1", "e0"):
        await engine.client.raise_event(instance, name, json.dumps(name))
    assert (await result(engine, instance)).output == '["e0","e1","e2"]'


@pytest.mark.parametrize("split", [True, False])
async def test_a_cancelled_long_timer_still_holds_if_it_is_split(
    app: SdkApp, start_engine: StartEngine, *, split: bool
) -> None:
    """SDK 1.7.0 does not report the cancellation of a timer beyond six days: the instance stays open."""

    @app.orchestrator
    def patient(context: df.DurableOrchestrationContext) -> Steps:
        timer = context.create_timer(context.current_utc_datetime + timedelta(days=10))
        answer = context.wait_for_external_event("go")
        yield context.task_any([timer, answer])
        timer.cancel()
        return answer.result

    unsplit = EngineOptions(maximum_short_timer=None, long_timer_interval=None)
    engine = await start_engine(None if split else unsplit)
    instance = await engine.client.start_new("patient")
    await until_status(engine, instance, RuntimeStatus.Running)
    await engine.client.raise_event(instance, "go", "7")
    row = await engine.client.wait(instance, 0.3 if split else 20)
    assert row.status is (RuntimeStatus.Running if split else RuntimeStatus.Completed)


async def test_too_large_custom_status_fails_the_instance(app: SdkApp, start_engine: StartEngine) -> None:
    """16 KB in UTF-16 is the extension's limit."""

    @app.orchestrator
    def talkative(context: df.DurableOrchestrationContext) -> Steps:
        context.set_custom_status("x" * 9000)
        yield context.wait_for_external_event("never")

    engine = await start_engine()
    row = await result(engine, await engine.client.start_new("talkative"))
    assert row.status is RuntimeStatus.Failed
    assert "at most 16384" in (row.output or "")


async def test_too_large_activity_result_fails_the_activity(app: SdkApp, start_engine: StartEngine) -> None:
    """A result above 1 MB is refused with a clear message."""

    @app.activity
    def flood(_: None) -> str:
        return "x" * (1 << 20)

    @app.orchestrator
    def drowning(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("flood")

    engine = await start_engine()
    row = await result(engine, await engine.client.start_new("drowning"))
    assert "The result of activity 'flood'" in (row.output or "")


async def test_stored_history_matches_the_replayed_events(engine: DurableEngine, tmp_path: Path) -> None:
    """An episode is written as: start, messages, decisions by id, end."""
    instance = await engine.client.start_new("chain", None, as_client(1))
    await result(engine, instance)
    kinds = [(body["EventType"], body["EventId"]) for body in engine.client.history(instance)]
    assert kinds == [(12, -1), (0, -1), (4, 0), (13, -1), (12, -1), (5, -1), (1, 0), (13, -1)]
    assert (tmp_path / "durable.sqlite").exists()
