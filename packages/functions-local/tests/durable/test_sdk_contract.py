"""What SDK 1.7.0 returns, word for word: if a new SDK differs, the engine must be checked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import azure.durable_functions as df
import pytest

from tests.durable.replaying import Script
from tests.durable.workflows import Steps


def test_every_action_of_one_task_all() -> None:
    """Kinds, order, nesting and the JSON texts of inputs."""

    def everything(context: df.DurableOrchestrationContext) -> Steps:
        context.set_custom_status({"s": 1})
        yield context.task_all(
            [
                context.call_activity("A", {"x": 1}),
                context.call_activity_with_retry("B", df.RetryOptions(5000, 3)),
                context.create_timer(context.current_utc_datetime + timedelta(seconds=30)),
                context.wait_for_external_event("go"),
                context.task_any([context.call_activity("C")]),
            ]
        )

    assert json.loads(Script(everything).run()) == {
        "isDone": False,
        "schemaVersion": 2,
        "customStatus": {"s": 1},
        "actions": [
            [
                {
                    "actionType": 12,
                    "compoundActions": [
                        {"actionType": 0, "functionName": "A", "input": '{"x": 1}'},
                        {
                            "actionType": 12,
                            "compoundActions": [
                                {
                                    "actionType": 1,
                                    "functionName": "B",
                                    "input": "null",
                                    "retryOptions": {
                                        "firstRetryIntervalInMilliseconds": 5000,
                                        "maxNumberOfAttempts": 3,
                                    },
                                }
                            ],
                        },
                        {"actionType": 5, "fireAt": "2026-11-21T10:00:31.000000Z", "isCanceled": False},
                        {"actionType": 6, "externalEventName": "go", "reason": "ExternalEvent"},
                        {
                            "actionType": 11,
                            "compoundActions": [{"actionType": 0, "functionName": "C", "input": "null"}],
                        },
                    ],
                }
            ]
        ],
    }


def test_continue_as_new_is_an_action_and_done() -> None:
    """Its input is JSON text."""

    def eternal(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("A")
        context.continue_as_new({"n": 1})

    state = json.loads(Script(eternal).scheduled(0, "A").next().completed(0, "1").run())
    assert state["isDone"]
    assert state["actions"][0][-1] == {"actionType": 4, "input": '{"n": 1}'}


def test_an_orchestrator_that_raises_carries_its_state() -> None:
    """After a mark in the message."""

    def failing(context: df.DurableOrchestrationContext) -> Steps:
        yield context.call_activity("A")
        raise ValueError("bad thing")

    with pytest.raises(Exception, match="bad thing") as raised:
        Script(failing).scheduled(0, "A").next().completed(0, "1").run()
    message, mark, state = str(raised.value).partition("\n\n$OutOfProcData$:")
    assert (message, bool(mark)) == ("bad thing", True)
    assert json.loads(state)["error"] == "bad thing"


def test_activity_failures_are_plain_exceptions() -> None:
    """Reason and details are in one text, which apps should not parse."""

    def catching(context: df.DurableOrchestrationContext) -> Steps:
        try:
            yield context.call_activity("A")
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing more precise
            return [type(error).__name__, str(error)]

    script = (
        Script(catching).scheduled(0, "A").next().failed(0, "Activity function 'A' failed:  ValueError: boom")
    )
    assert json.loads(script.run())["output"] == [
        "Exception",
        "Activity function 'A' failed:  ValueError: boom \n None",
    ]


def test_falsy_custom_status_is_dropped() -> None:
    """The SDK regards 0 as no status."""

    def quiet(context: df.DurableOrchestrationContext) -> Steps:
        context.set_custom_status(0)
        yield context.call_activity("A")

    assert "customStatus" not in json.loads(Script(quiet).run())


def test_replaying_is_known_without_is_played() -> None:
    """Everything before the last OrchestratorStarted is replayed, although IsPlayed is always false."""

    def watching(context: df.DurableOrchestrationContext) -> Steps:
        seen = [context.is_replaying]
        yield context.call_activity("A")
        seen.append(context.is_replaying)
        yield context.call_activity("A")
        return [*seen, context.is_replaying]

    script = (
        Script(watching).scheduled(0, "A").next().completed(0, "1").scheduled(1, "A").next().completed(1, "1")
    )
    assert json.loads(script.run())["output"] == [True, True, False]


@pytest.mark.parametrize(
    ("token", "seen"), [(None, None), ("5", 5), ('"s"', "s"), ('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1})]
)
def test_input_is_decoded_once_more(token: Any, seen: Any) -> None:
    """A string in the context is parsed as JSON; an object is used as it is."""

    def reading(context: df.DurableOrchestrationContext) -> Steps:
        return context.get_input()
        yield

    state = json.loads(Script(reading, input=token).run())
    assert state.get("output") == seen


def test_other_zones_are_printed_as_if_they_were_utc() -> None:
    """A trap: fire_at must come from current_utc_datetime."""

    def abroad(context: df.DurableOrchestrationContext) -> Steps:
        yield context.create_timer(datetime(2026, 11, 21, 12, 0, 0, tzinfo=timezone(timedelta(hours=2))))

    action = json.loads(Script(abroad).run())["actions"][0][0]
    assert action["fireAt"] == "2026-11-21T12:00:00.000000Z"
    assert datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC).isoformat()[:19] == action["fireAt"][:19]
