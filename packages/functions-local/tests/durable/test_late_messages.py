"""What a client sends just as its instance ends is dropped, as elsewhere, but not in silence."""

from __future__ import annotations

import asyncio
import logging

import pytest

from functions_local.durable import DurableEngine, Raised, Returned
from tests.durable.conftest import StartEngine
from tests.durable.sdk import SdkApp
from tests.durable.test_orchestrations import as_client
from tests.durable.workflows import result

DROPPED = "Event 'late' for orchestration i came as it ended, and is dropped"


@pytest.mark.parametrize("in_the_same_commit", [False, True])
async def test_an_event_for_an_instance_that_ends_is_logged(
    app: SdkApp, start_engine: StartEngine, caplog: pytest.LogCaptureFixture, *, in_the_same_commit: bool
) -> None:
    """Whether it was committed before the end, or together with it."""
    engines: list[DurableEngine] = []
    sending: list[asyncio.Task[None]] = []

    async def answer_and_send(function: str, parameter: str, payload: str) -> Returned | Raised:
        answer = await app.invoke(function, parameter, payload)
        if isinstance(answer, Returned) and '"isDone":true' in (answer.json or "").replace(" ", ""):
            # The engine goes on from here to its commit without a pause, so the task is in the same turn.
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
    """A timer that is left over when its instance ends was never a client's."""
    with caplog.at_level(logging.INFO, "functions_local.durable"):
        race = as_client({"slow": 0, "timer": 0.1, "cancel": True})
        await result(engine, await engine.client.start_new("race", None, race))
    assert "dropped" not in caplog.text
