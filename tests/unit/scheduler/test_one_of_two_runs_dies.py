"""Two runs of one activity at once, and one of them dies: the other goes on with what the first began."""

from __future__ import annotations

import asyncio

import pytest

from functions.pattern.definition import Json
from functions.pattern.ports import AgentCall
from functions.pattern.states import ProcessState
from tests.fakes.workflows import LINE
from tests.unit.scheduler.bench import Bench


@pytest.mark.xfail(
    reason="known limit: costs one recovery; to take it up would call it twice where both live", strict=True
)
async def test_step_that_the_dead_run_began_is_taken_up_by_the_living_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have its number. The living one returns, nothing runs, and the task waits for its recovery."""
    bench = Bench(LINE)
    first, second, never = asyncio.Event(), asyncio.Event(), asyncio.Event()
    gates = {"pick": [first, second], "send": [never]}

    async def do(call: AgentCall) -> Json:
        bench.agents.calls.append(call)
        step = call.effect_key.split("/")[1]
        if gates[step]:
            await gates[step].pop(0).wait()
        return {}

    monkeypatch.setattr(bench.agents, "do", do)
    dies = asyncio.create_task(bench.run())
    while bench.agents.steps != ["pick"]:
        await asyncio.sleep(0)
    lives = asyncio.create_task(bench.run())
    while bench.agents.steps != ["pick", "pick"]:
        await asyncio.sleep(0)
    first.set()
    while bench.agents.steps[2:] != ["send"]:
        await asyncio.sleep(0)
    dies.cancel()
    await asyncio.wait([dies])
    second.set()
    await lives
    assert bench.state is ProcessState.PROCESSED
