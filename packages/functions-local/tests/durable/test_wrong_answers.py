"""Invalid states, which another replay would not change: the instance fails with a clear message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions_local.durable import Raised, Returned
from functions_local.durable.events import RuntimeStatus
from tests.durable.conftest import StartEngine
from tests.durable.workflows import result

NO_STATE = "it did not return the state that an orchestrator of azure-functions-durable 1.x returns"
NO_ACTION = "it requested an action that the local host cannot carry out"


async def _outcome(start_engine: StartEngine, answer: Returned | Raised) -> str:
    async def answering(function: str, parameter: str, payload: str) -> Returned | Raised:
        del function, parameter, payload
        return answer

    engine = await start_engine(None, answering)
    row = await result(engine, await engine.client.start_new("chain"))
    assert row.status is RuntimeStatus.Failed
    assert row.output is not None
    return row.output


@pytest.mark.parametrize(
    "text",
    [None, "", "<html>", "7", "[]", "{}", '{"actions": 7}', '{"actions": [7]}', '{"actions": {"a": 1}}'],
)
async def test_an_invalid_state_fails_the_instance(
    start_engine: StartEngine, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Not JSON, or JSON of another form; output and log show what was returned."""
    output = await _outcome(start_engine, Returned(text))
    assert output.startswith(f"Orchestrator function 'chain' failed: {NO_STATE}")
    assert output.endswith(repr(text or ""))
    assert NO_STATE in caplog.text


async def test_an_invalid_state_in_an_exception_fails_the_instance(start_engine: StartEngine) -> None:
    """The state of an orchestrator that raised is part of the exception's text."""
    assert NO_STATE in await _outcome(start_engine, Raised("ValueError: x\n\n$OutOfProcData$:{", "stack"))


@pytest.mark.parametrize(
    "action",
    [
        {"actionType": 99},
        {"functionName": "add_one"},
        {"actionType": 0},
        {"actionType": 1, "functionName": "add_one", "retryOptions": {"maxNumberOfAttempts": "many"}},
        {"actionType": 0, "functionName": 7},
        {"actionType": 0, "functionName": "add_one", "input": {"not": "text"}},
        {
            "actionType": 1,
            "functionName": "add_one",
            "retryOptions": {"firstRetryIntervalInMilliseconds": 10**20, "maxNumberOfAttempts": 2},
        },
        {"actionType": 4, "input": {"not": "text"}},
        {"actionType": 5, "fireAt": "soon", "isCanceled": False},
        {"actionType": 12, "compoundActions": [{"actionType": 99}]},
        "a text",
    ],
)
async def test_an_unknown_action_fails_the_instance(start_engine: StartEngine, action: Any) -> None:
    """An action of unknown type or with missing fields; the output contains the action."""
    output = await _outcome(start_engine, Returned(json.dumps({"actions": [[action]]})))
    assert output.startswith(f"Orchestrator function 'chain' failed: {NO_ACTION}")
    if isinstance(action, dict):
        assert str(action.get("compoundActions", [action])[0]) in output
