"""What survives a stop, an error in the host, and a full memory."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from functions_local.durable import EngineOptions, Raised, Returned, instances
from functions_local.durable.events import RuntimeStatus
from tests.durable.conftest import StartEngine
from tests.durable.sdk import SdkApp
from tests.durable.test_orchestrations import as_client
from tests.durable.workflows import result, until, until_status


async def test_timers_and_waiting_instances_continue_after_a_restart(start_engine: StartEngine) -> None:
    """A timer set before the stop fires after the next start; an event reaches its waiter."""
    engine = await start_engine()
    timed = await engine.client.start_new("race", None, as_client({"slow": 0, "timer": 1, "cancel": False}))
    waiting = await engine.client.start_new("event")
    await until_status(engine, waiting, RuntimeStatus.Running)
    await until_status(engine, timed, RuntimeStatus.Running)
    await engine.stop()

    engine = await start_engine()
    await engine.client.raise_event(waiting, "go", "5")
    assert (await result(engine, waiting)).output == '{"event":5}'
    assert (await result(engine, timed)).output == '"activity"'


async def test_a_stop_waits_once_for_all_that_hangs(start_engine: StartEngine) -> None:
    """Orchestrators and activities get the grace period at the same time, not one after the other."""
    hanging: set[str] = set()

    async def hang(function: str, parameter: str, payload: str) -> Returned | Raised:
        del parameter, payload
        if function == "race":
            return Returned('{"actions": [[{"actionType": 0, "functionName": "slow"}]]}')
        hanging.add(function)
        await asyncio.Event().wait()
        return Returned(None)

    grace = 8.0  # so long that a busy machine can't make once look like twice
    engine = await start_engine(EngineOptions(stop_grace=grace), hang)
    await engine.client.start_new("race")
    await engine.client.start_new("event")
    await until(lambda: hanging == {"slow", "event"})
    before = time.monotonic()
    await engine.stop()
    assert time.monotonic() - before < 2 * grace


async def test_an_activity_that_was_answered_does_not_run_again(
    app: SdkApp, start_engine: StartEngine
) -> None:
    """Its answer is on disk before the orchestrator sees it."""
    replays: list[str] = []

    async def stuck_at_the_answer(function: str, parameter: str, payload: str) -> Returned | Raised:
        if parameter == "context":
            replays.append(function)
            if len(replays) == 2:
                await asyncio.Event().wait()
        return await app.invoke(function, parameter, payload)

    engine = await start_engine(EngineOptions(stop_grace=0.01), stuck_at_the_answer)
    instance = await engine.client.start_new("chain", None, as_client(1))
    await until(lambda: len(replays) == 2)
    await engine.stop()

    engine = await start_engine()
    assert (await result(engine, instance)).output == "1"
    assert app.calls == ["add_one"]


async def test_errors_in_the_host_are_retried(
    app: SdkApp, start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """When the worker itself fails, neither an episode nor an activity is lost."""
    faults = {"chain": 2, "add_one": 1}

    async def unsteady(function: str, parameter: str, payload: str) -> Returned | Raised:
        if faults.get(function, 0):
            faults[function] -= 1
            raise ConnectionError("the worker is gone")
        return await app.invoke(function, parameter, payload)

    engine = await start_engine(None, unsteady)
    with caplog.at_level(logging.CRITICAL, "functions_local.durable.scheduling"):
        row = await result(engine, await engine.client.start_new("chain", None, as_client(1)))
    assert row.output == "1"
    assert faults == {"chain": 0, "add_one": 0}


async def test_histories_that_left_memory_are_read_again(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle instances need no memory for their history, and still continue correctly."""
    monkeypatch.setattr(instances, "_HISTORIES_KEPT", 4)
    engine = await start_engine()
    ids = [await engine.client.start_new("event") for _ in range(20)]
    for id_ in ids:
        await until_status(engine, id_, RuntimeStatus.Running)
    assert len(engine._hub.instances._histories) <= 5
    for id_ in ids:
        await engine.client.raise_event(id_, "go", "1")
    assert {(await result(engine, id_)).output for id_ in ids} == {'{"event":1}'}
