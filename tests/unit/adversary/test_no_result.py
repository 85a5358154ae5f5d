"""An Agent of one's own that did its work and returns no JSON object: known done, so not "unknown"."""

from __future__ import annotations

from typing import Any

import pytest

from functions.pattern.errors import UnusableAnswerError
from functions.pattern.states import ProcessState, Remedy, StepState
from tests.fakes.agents import raising
from tests.fakes.workflows import step, workflow
from tests.unit.agents.test_queued import Bench as QueueBench
from tests.unit.scheduler.bench import Bench


@pytest.mark.parametrize("given", [None, 7, "paid"], ids=str)
@pytest.mark.parametrize("idempotent", [True, False])
async def test_step_that_was_done_without_an_object_is_held_with_the_reason(
    given: Any, *, idempotent: bool
) -> None:
    """Design §4: known done, but its result can't be recorded (no JSON): `Error` with the reason."""
    bench = Bench(workflow(step("pay", idempotent=idempotent), remedy=Remedy.COMPENSATE))
    bench.agents.behaviours["pay"] = lambda: given
    await bench.run()
    assert (bench.state, bench.step("pay").state) == (ProcessState.ERROR, StepState.UNRECORDED)


@pytest.mark.parametrize("given", [None, 7, "paid"], ids=str)
async def test_agent_behind_a_queue_says_that_it_was_done(given: Any) -> None:
    """Its one call was made; nobody would ever hear that it succeeded."""
    bench = QueueBench()
    bench.script.behaviour = lambda: given
    await bench.take(idempotent=False)
    [reply] = bench.replies.sent
    assert (reply.outcome, bool(reply.no_result)) == ("completed", True)


async def test_agent_behind_a_queue_that_says_no_reason_has_no_result_all_the_same() -> None:
    """An empty reason must not become an empty result: over an activity the same step is `Unrecorded`."""
    bench = QueueBench()
    bench.script.behaviour = raising(UnusableAnswerError(""))
    await bench.take(idempotent=False)
    [reply] = bench.replies.sent
    assert reply.no_result, "it would be recorded as completed, with the result {}"
