"""What becomes known of a step after an operator has said the contrary."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.events import Refused
from functions.pattern.identity import StartId
from functions.pattern.states import ProcessState, Remedy
from functions.pattern.transitions import apply
from tests.fakes.interventions import found_done, giving_up
from tests.fakes.tasks import after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import step, workflow

PAYING = workflow(
    step("pay", idempotent=False), step("send", "pay"), name="once", remedy=Remedy.COMPENSATE
)


def test_refusal_that_is_known_after_the_operator_said_done_is_not_thrown_away() -> None:
    """Rule 12: what is known is kept. The order is sent unpaid, and nobody is told."""
    held = told(pending(PAYING), claimed(), started("pay", start_id="only-one"))
    held = told(held, giving_up(hold=True), now=after(60))
    assert held.task.process_state is ProcessState.ERROR
    going_on = told(held, found_done("pay"), now=after(70))
    refusal = replace(failed("pay", error="shop answered 402"), start_id=StartId("only-one"))
    known = apply(going_on, refusal, after(80))
    assert not isinstance(known, Refused), known
    assert known.step(refusal.step).noted is not None


def test_completion_that_is_known_after_the_operator_said_not_done_is_noted() -> None:
    """The contrary is told, so that this is how it is meant."""
    from tests.fakes.interventions import found_not_done  # noqa: PLC0415
    from functions.pattern.identity import Epoch  # noqa: PLC0415

    held = told(pending(PAYING), claimed(), started("pay", start_id="only-one"))
    held = told(held, giving_up(hold=True), now=after(60))
    again = told(held, found_not_done("pay"), now=after(70))
    second = Epoch(2)
    again = told(
        again, claimed(second, start_by=200), started("pay", second, complete_by=200, start_id="another"), now=after(71)
    )
    late = replace(completed("pay"), start_id=StartId("only-one"))
    known = apply(again, late, after(80))
    assert not isinstance(known, Refused)
    assert known.step(late.step).noted is not None
