"""Failure policies: steps that may fail, skipped steps, and decisions that wait for an outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.decisions import in_question
from functions.pattern.definition import Workflow
from functions.pattern.epochs import UNKNOWN_AND_STAYS
from functions.pattern.events import (
    DecisionDue,
    Event,
    GivenUp,
    Postponed,
    Recovered,
    StepBroken,
    StepUnknown,
)
from functions.pattern.identity import StartId, StepName, scheduler_id
from functions.pattern.inputs import all_results, results_of
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.supervision import judge
from functions.pattern.transitions import apply
from tests.fakes.interventions import (
    cancellation,
    done,
    giving_up,
    recovery,
    refused,
    resubmission,
    undo_request,
)
from tests.fakes.tasks import (
    FIRST,
    SECOND,
    after,
    claimed,
    completed,
    failed,
    pending,
    skipped,
    started,
    told,
)
from tests.fakes.workflows import DIAMOND, LINE, TASK, TRIP, step, workflow
from tests.unit.pattern.test_recovery import POLICY

PAY = StepName("pay")


FLOW = workflow(
    step("seat"), step("pay", idempotent=False), step("other", idempotent=False), step("mail", "seat")
)


def _paying(remedy: Remedy = Remedy.COMPENSATE) -> TaskRecord:
    """Return a task whose payment, not to be repeated, has until 60, and whose seat has until 20."""
    of = workflow(
        step("seat", undo=True), step("pay", idempotent=False, undo=True), step("mail", "seat"), remedy=remedy
    )
    return told(pending(of), claimed(), started("seat", complete_by=20), started("pay", complete_by=60))


def _refused(remedy: Remedy = Remedy.COMPENSATE) -> TaskRecord:
    return told(_paying(remedy), failed("seat"), now=after(9))


def test_refusal_beside_a_payment_waits_for_its_outcome() -> None:
    """What was decided stands on the record; the Scheduler keeps the task."""
    waiting = _refused()
    assert (waiting.task.process_state, waiting.task.epoch) == (ProcessState.PROCESSING, FIRST)
    assert waiting.task.decision is not None
    assert (waiting.task.decision.ended_by, waiting.task.decision.reason) == (
        EpochEnd.REFUSED,
        "seat: no money",
    )
    assert (waiting.task.complete_by, waiting.task.due_at) == (after(60), after(20))
    # Decision happens when the outcome is known.
    turned = told(_refused(), completed("pay", result=b'{"receipt":1}'), now=after(50))
    assert (turned.task.process_state, turned.task.direction) == (ProcessState.PENDING, Direction.UNDO)
    assert turned.task.decision is None
    assert turned.step(PAY).result == b'{"receipt":1}'
    (closed,) = turned.history
    assert (closed.ended_by, closed.who, closed.reason) == (EpochEnd.REFUSED, "scheduler", "seat: no money")
    # First decision stands.
    turned = told(_refused(), failed("pay", error="no cover"), now=after(50))
    assert turned.history[0].reason == "seat: no money"
    assert turned.step(PAY).error == "no cover"


def test_decision_happens_when_its_time_has_passed() -> None:
    """The Supervisor carries it out, not before, and asks for nothing else."""
    waiting = _refused()
    assert judge(waiting, after(30), POLICY) == Postponed(epoch=FIRST, due_at=after(60))
    due = judge(waiting, after(65), POLICY)
    assert isinstance(due, DecisionDue)
    assert apply(waiting, due, after(59.9)) == Refused(RefusalReason.NOT_OVERDUE)
    turned = told(waiting, due, now=after(65))
    assert (turned.task.direction, turned.history[0].ended_by) == (Direction.UNDO, EpochEnd.REFUSED)
    # Nothing is due without a decision.
    due = DecisionDue(epoch=FIRST, start_by=after(300))
    assert apply(_paying(), due, after(65)) == Refused(RefusalReason.NOT_OVERDUE)


def test_hold_waits_too() -> None:
    """In `Error` an operator could resubmit while the payment is being made."""
    waiting = _refused(Remedy.HOLD)
    assert waiting.task.process_state is ProcessState.PROCESSING
    for event in (resubmission(), undo_request()):
        assert apply(waiting, event, after(10)) == Refused(RefusalReason.OUTCOME_AWAITED)
    held = told(waiting, completed("pay"), now=after(50))
    assert (held.task.process_state, held.task.last_error) == (ProcessState.ERROR, "seat: no money")
    assert held.step(PAY).state is StepState.COMPLETED
    # Operator waits for a payment of a task that was held early.
    held = told(_paying(Remedy.HOLD), giving_up(hold=True), now=after(61))
    cancelled = cancellation(by_operator=True)
    for deed in (resubmission(), undo_request(), cancelled):
        assert apply(held, deed, after(30)) == Refused(RefusalReason.OUTCOME_AWAITED)
    assert told(held, cancelled, now=after(62)).task.direction is Direction.UNDO


@pytest.mark.parametrize("event", [started("mail"), skipped("mail")], ids=["start", "skip"])
def test_nothing_new_starts_once_it_is_decided(event: Event) -> None:
    """Not even what a run has planned already."""
    starts = [started(name, complete_by=60) for name in ("seat", "pay", "other")]
    waiting = told(pending(FLOW), claimed(), *starts, failed("pay"), completed("seat"), now=after(9))
    assert ready_steps(waiting) == ()
    assert apply(waiting, event, after(10)) == Refused(RefusalReason.DECIDED)
    assert told(waiting, started("other", complete_by=60), now=after(10)) is waiting  # it came before


def test_recovery_waits_for_a_payment_beside_an_overdue_step() -> None:
    """The Supervisor looks again at the payment's complete-by; its outcome counts until then."""
    paying = _paying()
    assert judge(paying, after(30), POLICY) == Postponed(epoch=FIRST, due_at=after(60))
    for event in (recovery(), giving_up()):
        assert apply(paying, event, after(30)) == Refused(RefusalReason.NOT_OVERDUE)
    postponed = told(paying, Postponed(epoch=FIRST, due_at=after(60)), now=after(30))
    paid = told(postponed, completed("pay"), now=after(40))
    assert paid.task.due_at <= after(40)
    assert isinstance(judge(paid, after(41), POLICY), Recovered)
    # Recovery waits for the last of several payments.
    two = told(pending(FLOW), claimed(), started("pay", complete_by=20), started("other", complete_by=90))
    assert judge(two, after(30), POLICY) == Postponed(epoch=FIRST, due_at=after(90))
    verdict = judge(two, after(95), POLICY)
    assert isinstance(verdict, GivenUp)
    held = told(two, verdict, now=after(95))
    assert held.task.process_state is ProcessState.ERROR
    assert held.task.last_error == "pay: its outcome is unknown, and it must not run twice"


def test_unknown_outcome_that_no_undo_covers_is_noted_and_alerted() -> None:
    """The task ends as `Compensated`: somebody has to find out whether the payment stands."""
    of = workflow(step("seat"), step("pay", idempotent=False), remedy=Remedy.COMPENSATE)
    paying = told(pending(of), claimed(), started("seat"), started("pay", complete_by=20, start_id="one"))
    waiting = told(paying, failed("seat"), now=after(2))
    due = judge(waiting, after(30), POLICY)
    assert isinstance(due, DecisionDue)
    ended = told(waiting, due, now=after(30))
    assert ended.task.process_state is ProcessState.COMPENSATED
    [alert] = announcements(waiting, ended)
    assert alert.reason == "pay: its outcome is unknown, and it has no undo: if it was done, it stands"
    paid, refused = (
        told(ended, replace(event, start_id=StartId("one")), now=after(40))
        for event in (completed("pay"), failed("pay"))
    )
    [known] = announcements(ended, paid)
    assert known.reason == "pay: it was done, as is known by now, and stands: it has no undo"
    assert (refused.step(PAY).state, refused.step(PAY).noted) == (StepState.FAILED, None)
    assert announcements(ended, refused) == ()


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
    # Resubmission leaves what has failed without harm.
    held = replace(_shop(), on_failure=Remedy.HOLD)
    record = told(_paid(held), *refused("mail"), *refused("file"))
    assert record.task.process_state is ProcessState.ERROR
    again = told(record, resubmission(), claimed(SECOND))
    assert again.step(MAIL).state is StepState.FAILED
    assert ready_steps(again) == ("file",)


def test_task_goes_on_without_a_step_of_unknown_outcome() -> None:
    """It is recorded as failed, and says that nobody knows; told again, it changes nothing."""
    record = told(_paid(), started("mail"), _unknown())
    mail = record.step(MAIL)
    assert (mail.state, mail.error) == (StepState.FAILED, "outcome unknown (mail answered 503)")
    assert told(record, _unknown()) is record
    assert record.task.epoch == FIRST
    # A step that may not fail keeps running.
    record = told(_paid(_shop(remedy=Remedy.HOLD)), started("mail"))
    assert told(record, _unknown()) is record
    # A step of unknown outcome is undone.
    record = told(_paid(), started("mail"), _unknown(), cancellation())
    assert record.task.direction is Direction.UNDO
    assert all(each.needs_undo for each in record.steps if each.name in {"pay", "mail"})
    # A step that may fail needs no verdict.
    record = told(_paid(_shop(mail_idempotent=False)), started("mail"))
    assert record.step(MAIL).never_twice
    assert in_question(record) is None


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


def test_defect_holds_the_task_whatever_may_fail() -> None:
    """When it is mended, the step runs: a defect is not its outcome."""
    record = told(_paid(), _BROKEN)
    assert record.task.process_state is ProcessState.ERROR
    assert ready_steps(told(record, resubmission(), claimed(SECOND))) == ("mail",)
    # A defect after the outcome changes nothing.
    record = told(_paid(), *refused("mail"))
    assert told(record, _BROKEN) is record


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


def test_policy_is_a_part_of_the_shape() -> None:
    """A task keeps it; it may be written as its text."""
    mail = replace(step("mail"), on_failure=cast("Any", "continue"))
    assert workflow(mail).shape.steps[0].on_failure is Remedy.CONTINUE


CLOSE = StepName("close")


def test_what_needs_a_skipped_step_can_start() -> None:
    """It counts as settled, though it has no result."""
    record = told(pending(DIAMOND), claimed(), *done("open", "left"), skipped("right"))
    assert ready_steps(record) == (CLOSE,)
    step = record.step(StepName("right"))
    assert (step.state, step.started_at, step.finished_at, step.result) == (
        StepState.SKIPPED,
        None,
        after(0),
        None,
    )


def test_task_whose_last_step_is_skipped_is_processed() -> None:
    """Nothing is left to do."""
    record = told(pending(LINE), claimed(), *done("pick"), skipped("send"))
    assert record.task.process_state is ProcessState.PROCESSED
    # Task of skipped steps only is processed.
    record = told(pending(LINE), claimed(), skipped("pick"), skipped("send"))
    assert record.task.process_state is ProcessState.PROCESSED
    # Skipped step needs no undo.
    record = told(pending(TRIP), claimed(), skipped("flight"), *done("hotel"), started("car"), failed("car"))
    undone = told(record, claimed(SECOND), started("car", SECOND), completed("car", SECOND))
    assert undone.task.process_state is ProcessState.COMPENSATED
    assert undone.step(StepName("flight")).state is StepState.SKIPPED
