"""An operator said "it was not done", then the task was undone; now it is known that it was done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.identity import StartId, StepName
from functions.pattern.refusals import Refused
from functions.pattern.states import ProcessState, StepState
from functions.pattern.transitions import apply
from tests.fakes.interventions import cancellation, done, found_not_done, giving_up
from tests.fakes.tasks import after, claimed, completed, pending, started, told, unrecorded
from tests.fakes.workflows import step, workflow

LATER = after(10)


@pytest.mark.parametrize("kind", ["completed", "unrecorded"])
def test_charge_that_no_undo_covers_is_alerted(kind: str) -> None:
    """It stands on a Compensated order."""
    flow = workflow(step("seat"), step("pay", "seat", idempotent=False))
    paying = told(pending(flow), claimed(), *done("seat"), started("pay", complete_by=5, start_id="one"))
    held = told(paying, giving_up(hold=True), now=LATER)
    undone = told(held, found_not_done("pay"), cancellation(by_operator=True), now=LATER)
    assert undone.task.process_state is ProcessState.COMPENSATED
    event = completed("pay", result=b"{}") if kind == "completed" else unrecorded("pay")
    late = apply(undone, replace(event, start_id=StartId("one")), LATER)
    assert not isinstance(late, Refused)
    assert late.step(StepName("pay")).state in {StepState.COMPLETED, StepState.UNRECORDED}
    assert [each.kind for each in announcements(undone, late)] != [], "nobody hears of it"
