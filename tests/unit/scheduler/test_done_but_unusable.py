"""A step that must not be repeated and is known done is not "refused", even if its result can't be kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from functions.pattern.definition import Json
from functions.pattern.errors import UnusableAnswerError
from functions.pattern.states import ProcessState, Remedy
from tests.fakes.agents import raising
from tests.fakes.interventions import resubmission
from tests.fakes.tasks import told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import Bench

DONE_BUT: dict[str, Callable[[], Json]] = {
    "no JSON": raising(UnusableAnswerError("shop answered what is not JSON")),
    "too large": lambda: {"text": "x" * 25_000},
}


@pytest.mark.parametrize("behaviour", list(DONE_BUT))
async def test_activity_step_that_was_done_is_not_called_again_when_resubmitted(behaviour: str) -> None:
    """The service said that it did it. An Agent behind a queue takes care of this; the activity does not."""
    once = workflow(step("pay", idempotent=False), name="once")
    bench = Bench(once)
    bench.agents.behaviours["pay"] = DONE_BUT[behaviour]
    await bench.run()
    bench.clock.advance(600)
    if bench.state is ProcessState.ERROR:
        bench.store.put(told(bench.store.record(TASK), resubmission(), now=bench.clock.now()))
        await bench.run(epoch=2)
    assert bench.agents.steps == ["pay"]


@pytest.mark.parametrize("behaviour", list(DONE_BUT))
async def test_activity_step_that_was_done_is_not_taken_for_a_refusal(behaviour: str) -> None:
    """The task would be compensated round an effect that stands: the money is taken, the order "undone"."""
    once = workflow(
        step("pick", undo=True), step("pay", "pick", idempotent=False), name="once", remedy=Remedy.COMPENSATE
    )
    bench = Bench(once)
    bench.agents.behaviours["pay"] = DONE_BUT[behaviour]
    await bench.run()
    await bench.run(epoch=2)
    assert bench.state is not ProcessState.COMPENSATED
