"""Engines of two hosts share one hub: each instance runs in one of them, and outlives it."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from functions_local.durable import DatabaseRefusedError, DurableEngine, EngineOptions
from functions_local.durable.events import RuntimeStatus
from functions_local.durable.refusals import AlreadyExistsError, GoneError, NotFinishedError
from tests.durable.conftest import StartEngine
from tests.durable.sdk import SdkApp
from tests.durable.test_kill import KilledHost
from tests.durable.test_orchestrations import as_client
from tests.durable.workflows import until, until_status

SHARED = EngineOptions(stop_grace=0.01, is_shared=True)


@pytest.fixture
async def first(start_engine: StartEngine) -> DurableEngine:
    """Return the engine of the first host."""
    return await start_engine(SHARED)


@pytest.fixture
async def second(first: DurableEngine, start_engine: StartEngine) -> DurableEngine:  # noqa: ARG001 - the order
    """Return the engine of the second host, which starts after the first."""
    return await start_engine(SHARED)


async def output_of(engine: DurableEngine, instance: str) -> str | None:
    """Return the output of an instance of any host when it has ended."""
    await until(lambda: engine.client.find(instance).status.is_terminal)
    return engine.client.find(instance).output


async def test_an_id_starts_in_one_host(app: SdkApp, first: DurableEngine, second: DurableEngine) -> None:
    """At the same moment, or while the instance lives in the other host; a finished one is replaced."""
    for _ in range(2):
        starts = (each.client.start_new("chain", "one", as_client(3)) for each in (first, second, first))
        results = await asyncio.gather(*starts, return_exceptions=True)
        assert [type(each) for each in results].count(AlreadyExistsError) == 2
        assert await output_of(first, "one") == await output_of(second, "one") == "3"
    assert len(app.calls) == 6
    await first.client.start_new("event", "two")
    with pytest.raises(AlreadyExistsError, match="already exists"):
        await second.client.start_new("event", "two")


async def test_requests_reach_an_instance_in_the_other_host(
    first: DurableEngine, second: DurableEngine
) -> None:
    """An event, an end, and a purge, which a live instance refuses."""
    for instance in ("one", "two"):
        await first.client.start_new("event", instance)
        await until_status(second, instance, RuntimeStatus.Running)
    with pytest.raises(NotFinishedError):
        await second.client.purge("one")
    await second.client.raise_event("one", "go", "5")
    await second.client.terminate("two", "enough")
    assert await output_of(second, "one") == '{"event":5}'
    assert await output_of(second, "two") == "enough"
    with pytest.raises(GoneError):
        await second.client.raise_event("one", "go", "5")
    await second.client.purge("one")
    assert first.figures()["orchestrations_alive"] == 0


async def test_work_of_an_ended_host_continues_in_another(
    app: SdkApp, first: DurableEngine, second: DurableEngine, start_engine: StartEngine
) -> None:
    """A timer, an event and an interrupted activity; the host that comes back has its place, and no work."""

    @app.activity
    async def slow(_: float) -> str:
        if app.calls.count("slow") == 1:
            await asyncio.Event().wait()
        return "done"

    await first.client.start_new("race", "activity", as_client({"slow": 0, "timer": 60, "cancel": True}))
    await until(lambda: bool(app.calls))
    await first.client.start_new("event", "event")
    await until_status(first, "event", RuntimeStatus.Running)
    await second.client.raise_event("event", "go", "5")
    await first.stop()
    back = await start_engine(SHARED)
    assert back._hub.database.place == 0
    assert await output_of(back, "activity") == '"activity"'
    assert await output_of(back, "event") == '{"event":5}'
    assert app.calls == ["slow", "slow"]


async def test_a_host_alone_refuses_and_takes_all_that_others_left(
    first: DurableEngine, second: DurableEngine, start_engine: StartEngine
) -> None:
    """A hub of several hosts can be used by one, after their end."""
    await second.client.start_new("event", "one")
    with pytest.raises(DatabaseRefusedError):
        await start_engine()
    await asyncio.gather(first.stop(), second.stop())
    alone = await start_engine()
    await alone.client.raise_event("one", "go", "5")
    assert await output_of(alone, "one") == '{"event":5}'


@pytest.mark.process
@pytest.mark.timeout(300)
async def test_hosts_that_are_killed_in_turn_lose_nothing(tmp_path: Path) -> None:
    """Instances start in both hosts; the result of each is right, and none ran in two hosts at once."""
    draw = random.Random(3)  # noqa: S311 - a test that can be repeated
    hosts = [KilledHost(tmp_path, "shared"), KilledHost(tmp_path, "shared")]
    await asyncio.gather(*(host.start() for host in hosts))
    instances = [f"k{number}" for number in range(16)]
    try:
        for number, instance in enumerate(instances):
            status, _ = await hosts[number % 2].ask("POST", f"orchestrators/everything/{instance}")
            assert status == 202
        for turn in range(6):
            await asyncio.sleep(draw.uniform(0.02, 0.4))  # the moment of the kill is varied
            await hosts[turn % 2].kill()
            for instance in instances[turn * 3 : turn * 3 + 3]:
                await hosts[1 - turn % 2].ask("POST", f"instances/{instance}/raiseEvent/approve", turn)
            await asyncio.sleep(draw.choice((0.0, 0.5)))
            await hosts[turn % 2].start()
        outputs = [await hosts[0].output(instance) for instance in instances]
    finally:
        await asyncio.gather(*(host.kill() for host in hosts))
    assert outputs == [[2, "slept 0.15", number // 3, [11, 21]] for number in range(16)]
    with closing(sqlite3.connect(tmp_path / "durable.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM activities").fetchall() == [(0,)]
        assert database.execute("SELECT count(*) FROM inbox").fetchall() == [(0,)]
