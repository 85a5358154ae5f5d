"""An operator gives the result of a step that failed: its task goes on after it; an undo still covers it."""

from __future__ import annotations

import pytest

from functions.pattern.events import StepBroken
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.ready import ready_steps, undo_order
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.transitions import apply
from tests.fakes.interventions import (
    OPERATOR,
    done,
    giving_up,
    refused,
    result_given,
    undo_request,
)
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told, unrecorded
from tests.fakes.workflows import TASK, awaiting, step, workflow

PAY = StepName("pay")
LATER = after(10)
FLOW = workflow(
    step("seat", undo=True), step("pay", "seat", undo=True), step("mail", "pay"), remedy=Remedy.HOLD
)
REFUSED = told(pending(FLOW), claimed(), *done("seat"), *refused("pay"))
SILENT = told(
    told(pending(FLOW), claimed(), *done("seat"), started("pay", complete_by=5)),
    giving_up(),
    now=LATER,
)


@pytest.mark.parametrize("record", [REFUSED, SILENT], ids=["refused", "outcome unknown"])
def test_task_goes_on_after_the_step_with_the_result(record: TaskRecord) -> None:
    """In the next epoch; who gave it, and why, is on the one that ended."""
    given = told(record, result_given("pay", result=b'{"receipt":1}'), now=LATER)
    assert (given.step(PAY).state, given.step(PAY).result) == (StepState.COMPLETED, b'{"receipt":1}')
    assert (given.task.process_state, given.task.epoch) == (ProcessState.PENDING, SECOND)
    [closed] = given.history
    assert (closed.ended_by, closed.who, closed.reason) == (EpochEnd.RESULT_GIVEN, OPERATOR, "paid by hand")
    assert ready_steps(told(given, claimed(SECOND), now=LATER)) == ("mail",)


@pytest.mark.parametrize("record", [REFUSED, SILENT], ids=["refused", "outcome unknown"])
def test_later_undo_covers_the_step_as_before(record: TaskRecord) -> None:
    """It was dispatched, and nobody knows what it has done."""
    given = told(record, result_given("pay"), claimed(SECOND), *refused("mail", SECOND), now=LATER)
    assert undo_order(told(given, undo_request(SECOND), now=LATER)) == ("pay", "seat")


def test_last_step_given_ends_the_task() -> None:
    """Nothing is left to run."""
    flow = workflow(step("pay"), remedy=Remedy.HOLD)
    given = told(pending(flow), claimed(), *refused("pay"), result_given("pay"))
    assert given.task.process_state is ProcessState.PROCESSED


def test_other_steps_that_failed_run_again() -> None:
    """As after a resubmission."""
    flow = workflow(step("pay"), step("seat"), remedy=Remedy.HOLD)
    both = told(pending(flow), claimed(), started("pay"), *refused("seat"))
    given = told(both, result_given("pay"))
    assert [each.state for each in given.steps] == [StepState.COMPLETED, StepState.NOT_STARTED]


@pytest.mark.parametrize("name", ["seat", "mail", "no-such-step"])
def test_only_what_failed_is_given_a_result(name: str) -> None:
    """Not what is done, was never begun, or does not exist."""
    assert apply(REFUSED, result_given(name), LATER) == Refused(RefusalReason.NOT_FAILED)


def test_what_was_gone_on_without_and_what_waits_is_given_none() -> None:
    """An event is told, and what may fail has failed."""
    flow = workflow(
        awaiting("approve"), step("ticket", on_failure=Remedy.CONTINUE), step("pay"), remedy=Remedy.HOLD
    )
    held = told(pending(flow), claimed(), started("approve"), *refused("ticket"), *refused("pay"))
    for name in ("approve", "ticket"):
        assert apply(held, result_given(name), LATER) == Refused(RefusalReason.NOT_FAILED)
    assert not isinstance(apply(held, result_given("pay"), LATER), Refused)


@pytest.mark.parametrize("remedy", [None, Remedy.CONTINUE])
def test_step_that_a_defect_stopped_is_given_a_result(remedy: Remedy | None) -> None:
    """Also one that may fail: its task was not gone on with."""
    flow = workflow(step("ticket", on_failure=remedy), step("mail", "ticket"))
    defect = StepBroken(
        epoch=FIRST, scheduler=scheduler_id(TASK, FIRST), step=StepName("ticket"), error="no", start_by=LATER
    )
    held = told(pending(flow), claimed(), defect)
    given = told(held, result_given("ticket"), claimed(SECOND), now=LATER)
    assert ready_steps(given) == ("mail",)
    assert undo_order(given) == ()


def test_answer_comes_first() -> None:
    """What must not be repeated is answered for, not skipped; what was done is given its own result."""
    flow = workflow(step("pay", idempotent=False), step("seat"), remedy=Remedy.HOLD)
    unknown = told(
        told(pending(flow), claimed(), started("pay", complete_by=5)), giving_up(hold=True), now=LATER
    )
    assert apply(unknown, result_given("pay"), LATER) == Refused(RefusalReason.OUTCOME_UNKNOWN)
    lost = told(pending(flow), claimed(), started("pay"), unrecorded("pay"))
    assert apply(lost, result_given("pay"), LATER) == Refused(RefusalReason.KNOWN_DONE)


def test_no_result_is_given_to_an_undo_or_outside_error() -> None:
    """There is nothing to go on to."""
    undoing = told(REFUSED, undo_request(), claimed(SECOND), *refused("pay", SECOND))
    assert apply(undoing, result_given("pay", SECOND), LATER) == Refused(RefusalReason.NOT_FAILED)
    running = told(pending(FLOW), claimed(), *done("seat"), started("pay"))
    assert apply(running, result_given("pay"), LATER) == Refused(RefusalReason.NOT_IN_ERROR)
