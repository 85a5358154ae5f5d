"""What must not be repeated, and whose outcome is unknown, goes on by an operator's answer alone."""

from __future__ import annotations

import pytest

from functions.pattern.events import OperatorEvent
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState
from functions.pattern.transitions import apply
from tests.fakes.interventions import (
    OPERATOR,
    done,
    found_done,
    found_not_done,
    giving_up,
    refused,
    resubmission,
    undo_request,
)
from tests.fakes.tasks import SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import step, workflow

PAY, FEE = StepName("pay"), StepName("fee")
FLOW = workflow(
    step("seat", undo=True), step("pay", "seat", idempotent=False), step("fee", "seat", idempotent=False)
)
LATER = after(10)


def _held(*steps: str) -> TaskRecord:
    """Return a task that is held, as nobody knows what came of these steps; others are done."""
    others = [name for name in ("pay", "fee") if name not in steps]
    begun = told(
        pending(FLOW), claimed(), *done("seat", *others), *(started(name, complete_by=5) for name in steps)
    )
    return told(begun, giving_up(hold=True), now=LATER)


def test_resubmission_is_refused_until_the_answer_is_given() -> None:
    """It would run the payment once more, or go on without it."""
    assert apply(_held("pay"), resubmission(), LATER) == Refused(RefusalReason.OUTCOME_UNKNOWN)


def test_step_that_was_done_completes_with_its_result() -> None:
    """Nothing is left to do, so the task is `Processed`; who said it, and why, is in its history."""
    task = told(_held("pay"), found_done("pay", result=b'{"receipt":1}'), now=LATER)
    assert task.task.process_state is ProcessState.PROCESSED
    assert (task.step(PAY).state, task.step(PAY).result) == (StepState.COMPLETED, b'{"receipt":1}')
    (closed,) = task.history
    assert (closed.ended_by, closed.who) == (EpochEnd.FOUND_DONE, OPERATOR)
    assert closed.reason == "it is on the account"


def test_step_that_was_not_done_runs_again() -> None:
    """In the next epoch, with its recoveries to spend."""
    task = told(_held("pay"), found_not_done("pay"), now=LATER)
    assert (task.task.process_state, task.task.epoch, task.task.failure_count) == (
        ProcessState.PENDING,
        SECOND,
        0,
    )
    assert task.history[0].ended_by is EpochEnd.FOUND_NOT_DONE
    again = told(task, claimed(SECOND), *done("pay", epoch=SECOND), now=LATER)
    assert again.task.process_state is ProcessState.PROCESSED


def test_each_unknown_outcome_is_asked_for() -> None:
    """The task stays held until the last answer; each is in the history."""
    first = told(_held("pay", "fee"), found_done("pay"), now=LATER)
    assert (first.task.process_state, first.task.epoch) == (ProcessState.ERROR, SECOND)
    assert first.task.last_error == "fee: its outcome is unknown, and it must not run twice"
    second = told(first, found_not_done("fee", SECOND), now=LATER)
    assert second.task.process_state is ProcessState.PENDING
    assert [closed.ended_by for closed in second.history] == [EpochEnd.FOUND_DONE, EpochEnd.FOUND_NOT_DONE]


@pytest.mark.parametrize("answer", [found_done("seat"), found_not_done("seat"), found_done("no-such-step")])
def test_what_is_not_in_question_is_not_answered(answer: OperatorEvent) -> None:
    """Its outcome is on record."""
    assert apply(_held("pay"), answer, LATER) == Refused(RefusalReason.NOT_IN_QUESTION)


@pytest.mark.parametrize("answer", [found_done("pay"), found_not_done("pay")])
def test_answer_counts_in_error_only(answer: OperatorEvent) -> None:
    """While it runs, its outcome may come by itself."""
    paying = told(pending(FLOW), claimed(), *done("seat"), started("pay"))
    assert apply(paying, answer, after(5)) == Refused(RefusalReason.NOT_IN_ERROR)


def test_undo_needs_no_answer() -> None:
    """It covers what may have been done."""
    turned = told(_held("pay"), undo_request(), now=LATER)
    assert turned.task.direction is Direction.UNDO


def test_undo_asks_no_question() -> None:
    """What stays unknown then stops nothing any more."""
    turned = told(_held("pay"), undo_request(), claimed(SECOND), *refused("seat", SECOND), now=LATER)
    assert turned.task.process_state is ProcessState.ERROR
    assert apply(turned, found_done("pay", SECOND), LATER) == Refused(RefusalReason.NOT_IN_QUESTION)
    assert not isinstance(apply(turned, resubmission(SECOND), LATER), Refused)
