"""A reply that is delivered twice is no illegal transition, whatever has become of its step since."""

from __future__ import annotations

from functions.pattern.identity import start_of
from functions.pattern.states import Outcome, StepState, Way
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.workflows import step, workflow
from tests.unit.scheduler.test_replies import TOKEN, Bench

BOTH = workflow(step("pick", via=Way.QUEUE), step("pay", idempotent=False, complete_within=100), name="shop")
ONCE = workflow(step("pick", via=Way.QUEUE, idempotent=False), name="shop")
PICKING = started("pick", token=TOKEN, start_id=start_of(TOKEN))


async def test_refusal_comes_twice_while_its_decision_waits() -> None:
    """The Scheduler could not be woken, so the message is delivered again."""
    bench = Bench(BOTH)
    bench.store.put(told(pending(BOTH), claimed(), PICKING, started("pay", complete_by=100)))
    await bench.take(outcome=Outcome.FAILED, error="no")
    await bench.take(outcome=Outcome.FAILED, error="no")
    assert bench.state is StepState.FAILED


async def test_late_refusal_comes_twice() -> None:
    """It stands on the step since its first delivery."""
    bench = Bench(ONCE)
    bench.store.put(told(pending(ONCE), claimed(), PICKING))
    bench.clock.advance(21)
    await bench.take(outcome=Outcome.FAILED, error="no")
    await bench.take(outcome=Outcome.FAILED, error="no")
    assert bench.state is StepState.FAILED


async def test_unusable_answer_comes_twice_and_late() -> None:
    """The step is known to be done."""
    bench = Bench(ONCE)
    bench.store.put(told(pending(ONCE), claimed(), PICKING))
    bench.clock.advance(21)
    await bench.take(no_result="not JSON")
    await bench.take(no_result="not JSON")
    assert bench.state is StepState.UNRECORDED
