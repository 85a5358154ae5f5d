"""A step that may fail: its task goes on without it, and a later undo covers it all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.decisions import in_question
from functions.pattern.definition import Workflow
from functions.pattern.epochs import UNKNOWN_AND_STAYS
from functions.pattern.errors import DefinitionError
from functions.pattern.events import Event, StepBroken, StepUnknown
from functions.pattern.identity import StartId, StepName, scheduler_id
from functions.pattern.inputs import all_results, results_of
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from tests.fakes.interventions import cancellation, done, refused, resubmission
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow

MAIL = StepName("mail")
_BROKEN = StepBroken(
    epoch=FIRST, scheduler=scheduler_id(TASK, FIRST), step=MAIL, error="KeyError", start_by=after(30)
)


def _shop(*, mail_idempotent: bool = True, remedy: Remedy = Remedy.CONTINUE) -> Workflow:
    return workflow(
        step("pay", undo=True),
        step("mail", "pay", undo=True, idempotent=mail_idempotent, on_failure=remedy),
        step("file", "mail"),
        remedy=Remedy.COMPENSATE,
    )


def _paid(of: Workflow | None = None) -> TaskRecord:
    return told(pending(of or _shop()), claimed(), *done("pay"))


def _unknown(fault: str = "mail answered 503") -> StepUnknown:
    return StepUnknown(
        epoch=FIRST,
        scheduler=scheduler_id(TASK, FIRST),
        step=MAIL,
        start_by=after(30),
        start_id=started("mail").start_id,
        fault=fault,
    )


def test_task_goes_on_without_a_refused_step() -> None:
    """What needs it sees None; the task is `Processed`."""
    record = told(_paid(), *refused("mail"))
    assert (record.step(MAIL).state, record.step(MAIL).error) == (StepState.FAILED, "no money")
    assert ready_steps(record) == ("file",)
    assert results_of(record, StepName("file"))[MAIL] is None
    processed = told(record, *done("file"))
    assert processed.task.process_state is ProcessState.PROCESSED
    assert all_results(processed)[MAIL] is None


def test_task_goes_on_without_a_step_of_unknown_outcome() -> None:
    """It is recorded as failed, and says that nobody knows; told again, it changes nothing."""
    record = told(_paid(), started("mail"), _unknown())
    mail = record.step(MAIL)
    assert (mail.state, mail.error) == (StepState.FAILED, "outcome unknown (mail answered 503)")
    assert told(record, _unknown()) is record
    assert record.task.epoch == FIRST


def test_only_what_may_fail_is_given_up_like_that() -> None:
    """Any other is recovered."""
    record = told(_paid(_shop(remedy=Remedy.HOLD)), started("mail"))
    assert told(record, _unknown()) is record


def test_what_may_have_been_done_is_undone() -> None:
    """A refusal may follow an attempt that came through."""
    record = told(_paid(), started("mail"), _unknown(), cancellation())
    assert record.task.direction is Direction.UNDO
    assert all(each.needs_undo for each in record.steps if each.name in {"pay", "mail"})


def _charge() -> Workflow:
    """Make one whose last step may fail, must not be repeated, and has no undo."""
    charge = step("mail", "pay", idempotent=False, on_failure=Remedy.CONTINUE)
    return workflow(step("pay", undo=True), charge, step("file", "mail"), remedy=Remedy.COMPENSATE)


def test_what_may_have_been_done_and_has_no_undo_is_noted_and_alerted() -> None:
    """When its task is undone without it; and once more, as no duplicate, when it is known."""
    begun = started("mail", start_id="one")
    unknown = told(_paid(_charge()), begun, replace(_unknown(), start_id=begun.start_id))
    assert unknown.step(MAIL).noted is None
    undone = told(unknown, cancellation())
    [alert] = announcements(unknown, undone)
    assert alert.reason == f"mail: {UNKNOWN_AND_STAYS}"
    known = told(undone, replace(completed("mail"), start_id=begun.start_id))
    [later] = announcements(undone, known)
    assert (alert.step, later.step) == (MAIL, MAIL)
    assert alert.message_id != later.message_id


@pytest.mark.parametrize("turns", [(), (cancellation(),)], ids=["goes on", "is undone"])
def test_refusal_of_what_was_given_up_is_known_late(turns: tuple[Event, ...]) -> None:
    """Its reason takes the place of "outcome unknown", and nothing is left to note."""
    begun, refusal = started("mail", start_id="one"), replace(failed("mail"), start_id=StartId("one"))
    unknown = replace(_unknown(), start_id=begun.start_id)
    record = told(_paid(_charge()), begun, unknown, *turns)
    known = told(record, refusal)
    assert known.task == record.task
    assert (known.step(MAIL).error, known.step(MAIL).noted) == (refusal.error, None)
    assert told(known, cancellation()).step(MAIL).noted is None


def test_what_may_fail_is_no_operators_question() -> None:
    """Not even if it must not be repeated."""
    record = told(_paid(_shop(mail_idempotent=False)), started("mail"))
    assert record.step(MAIL).never_twice
    assert in_question(record) is None


def test_resubmission_leaves_what_has_failed_without_harm() -> None:
    """What needs it may have seen None already."""
    held = replace(_shop(), on_failure=Remedy.HOLD)
    record = told(_paid(held), *refused("mail"), *refused("file"))
    assert record.task.process_state is ProcessState.ERROR
    again = told(record, resubmission(), claimed(SECOND))
    assert again.step(MAIL).state is StepState.FAILED
    assert ready_steps(again) == ("file",)


def test_defect_that_is_told_after_the_outcome_changes_nothing() -> None:
    """The task went on without the step."""
    record = told(_paid(), *refused("mail"))
    assert told(record, _BROKEN) is record


def test_defect_holds_the_task_whatever_may_fail() -> None:
    """When it is mended, the step runs: a defect is not its outcome."""
    record = told(_paid(), _BROKEN)
    assert record.task.process_state is ProcessState.ERROR
    assert ready_steps(told(record, resubmission(), claimed(SECOND))) == ("mail",)


@pytest.mark.parametrize(
    ("remedy", "state", "ended_by"),
    [
        (Remedy.HOLD, ProcessState.ERROR, []),
        (Remedy.COMPENSATE, ProcessState.PENDING, [EpochEnd.REFUSED]),
    ],
)
def test_remedy_of_the_step_stands_before_that_of_its_workflow(
    remedy: Remedy, state: ProcessState, ended_by: list[EpochEnd]
) -> None:
    """Either way."""
    other = {Remedy.HOLD: Remedy.COMPENSATE, Remedy.COMPENSATE: Remedy.HOLD}[remedy]
    record = told(_paid(replace(_shop(remedy=remedy), on_failure=other)), *refused("mail"))
    assert record.task.process_state is state
    assert [closed.ended_by for closed in record.history] == ended_by


def test_workflow_itself_can_t_continue() -> None:
    """Only a step can be done without."""
    with pytest.raises(DefinitionError, match=r"on_failure must be Remedy.COMPENSATE or Remedy.HOLD"):
        replace(_shop(), on_failure=Remedy.CONTINUE)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"on_failure": "ignore"}, "on_failure must be Remedy.COMPENSATE or Remedy.HOLD or Remedy.CONTINUE"),
        ({"retry": 3}, "retry must be a Retry(…), not 3"),
    ],
    ids=["remedy", "retry"],
)
def test_policy_of_a_step_is_checked(fields: Any, text: str) -> None:
    """When it is defined."""
    with pytest.raises(DefinitionError) as refusal:
        workflow(replace(step("fly"), **fields))
    assert text in str(refusal.value)


def test_policy_is_a_part_of_the_shape() -> None:
    """A task keeps it; it may be written as its text."""
    mail = replace(step("mail"), on_failure=cast("Any", "continue"))
    assert workflow(mail).shape.steps[0].on_failure is Remedy.CONTINUE
