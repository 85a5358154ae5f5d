"""Runs of `run_steps` that share one wide task, in one process and in four, on the real table."""

from __future__ import annotations

import asyncio
from itertools import cycle

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.pattern.states import ProcessState
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from tests.fakes.agents import ScriptedAgent
from tests.fakes.runners import make_runs
from tests.fakes.tasks import FIRST, pending
from tests.fakes.workflows import TASK, step, workflow
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process


def _wide(steps: int) -> Workflow:
    """All but the last side by side; the last needs all of them."""
    names = [f"s{number:02d}" for number in range(steps - 1)]
    return workflow(*map(step, names), step("last", *names))


async def _schedule(processes: list[RunSteps]) -> None:
    """Start runs as the orchestrator does, in one process after another, until the task is over."""
    places, numbers = cycle(processes), iter(range(1, 100))

    async def run(*, share: bool) -> None:
        given = RunInput(task=TASK, epoch=1, number=next(numbers), share=share)
        progress = await next(places).run(given)
        assert progress["state"] != "unknown"
        await asyncio.gather(*(run(share=True) for _ in range(progress["runs"])))

    await run(share=False)


@pytest.mark.parametrize("count", [1, 4], ids=["one process", "four processes"])
@pytest.mark.parametrize("steps", [12, 24, 90])
async def test_every_step_is_called_once_and_done(make_process: MakeProcess, steps: int, count: int) -> None:
    """In epoch 1, whichever runs start and end their steps at the same moment."""
    definition, agent = _wide(steps), ScriptedAgent()
    agents = {each.agent: agent for each in definition.steps}
    processes: list[Process] = [make_process() for _ in range(count)]
    await processes[0].store.admit(pending(definition))
    registry = Registry((definition,), {})
    await _schedule(
        [
            make_runs(each.store, agents, registry, each.clock, process=f"p{number}")
            for number, each in enumerate(processes)
        ]
    )
    record = (await processes[0].read(TASK)).record
    assert sorted(agent.steps) == sorted(each.name for each in definition.steps)
    assert (record.task.process_state, record.task.epoch) == (ProcessState.PROCESSED, FIRST)
    assert record.task.failure_count == 0
    if count == 1:
        assert processes[0].figures.transactions <= 12
