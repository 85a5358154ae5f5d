"""An Agent that is down while many tasks wait: one alert, no failures, and all are done when it is back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from functions.pattern.agent_messages import done
from tests.e2e.agents.stand_in import ELSEWHERE, StandIn
from tests.e2e.caller import ORDER
from tests.e2e.recovery.bench import PATIENCE, Bench, running

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

_TASKS = 60
_AT_ONCE = 8
_CROWD = 20
_LOOK_EVERY = 0.5
#: An outage lasts several limits of a step; extended waits are short, so that the test is.
_SETTINGS = {
    **ELSEWHERE,
    "STEP_SECONDS": "orders.payment=4",
    "SUPERVISOR_SCHEDULE": "*/2 * * * * *",
    "SUPERVISOR_THRESHOLD": "3",
    "EXTENDED_WAITS": "2,4",
    "CROWD_TASKS": f"{_CROWD}",
}


async def test_sixty_tasks_wait_for_an_agent_that_is_down_and_their_crowd_has_not_failed(
    tmp_path: Path,
) -> None:
    """Its silence is the one alert; a few try meanwhile, and all are processed after its return."""
    async with running(tmp_path, _SETTINGS) as bench:
        tasks = [f"waiting-{number}" for number in range(_TASKS)]
        gate = asyncio.Semaphore(_AT_ONCE)

        async def submit(task: str) -> None:
            async with gate:
                await bench.submit(task, "orders", ORDER)

        await asyncio.gather(*map(submit, tasks))
        await _until_extended(bench, _TASKS // 2)
        async with _serving(bench):
            ends = [await bench.until_state(task, "Processed") for task in tasks]
        counted = Counter(each["failure_count"] for each in ends)
        assert sum(counted[times] for times in counted if times) < _CROWD, (
            "a sweep may meet the first few alone"
        )
        kinds = Counter(alert["event"] for alert in bench.remote.alerts)
        assert kinds["tasks late together"] == 0
        assert kinds["operator alert"] == 0
        assert kinds["agent silent"] == 1


async def _until_extended(bench: Bench, least: int) -> None:
    """Wait until the Supervisor has extended so many: a busy machine submits them over several sweeps."""
    extended = dict[str, int]()
    async with asyncio.timeout(PATIENCE):
        while sum(extended.values()) < least:
            async with bench.session.get("/api/ops/overview") as answer:
                sweep = (await answer.json())["supervisor"]
            if sweep is not None:
                extended[sweep["finished_at"]] = sweep["extended"]
            await asyncio.sleep(_LOOK_EVERY)


@asynccontextmanager
async def _serving(bench: Bench) -> AsyncIterator[None]:
    """Be the Agent, which does whatever it is asked."""
    async with StandIn.at(bench) as agent:

        async def serve() -> None:
            while True:
                await agent.reply(done(await agent.next_request(), {}))

        serving = asyncio.create_task(serve())
        try:
            yield
        finally:
            serving.cancel()
