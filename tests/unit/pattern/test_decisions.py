"""No epoch ends while what must not be repeated may still be done in time: decisions wait for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.events import DecisionDue, Event, GivenUp, Postponed, Recovered
from functions.pattern.identity import StartId, StepName
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.supervision import judge
from functions.pattern.transitions import apply
from tests.fakes.interventions import cancellation, giving_up, recovery, resubmission, undo_request
from tests.fakes.tasks import FIRST, after, claimed, completed, failed, pending, skipped, started, told
from tests.fakes.workflows import step, workflow
from tests.unit.pattern.test_supervision import POLICY

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


def test_decision_happens_when_the_outcome_is_known() -> None:
    """The payment's result is on record, so that it can be undone."""
    turned = told(_refused(), completed("pay", result=b'{"receipt":1}'), now=after(50))
    assert (turned.task.process_state, turned.task.direction) == (ProcessState.PENDING, Direction.UNDO)
    assert turned.task.decision is None
    assert turned.step(PAY).result == b'{"receipt":1}'
    (closed,) = turned.history
    assert (closed.ended_by, closed.who, closed.reason) == (EpochEnd.REFUSED, "scheduler", "seat: no money")


def test_decision_happens_when_its_time_has_passed() -> None:
    """The Supervisor carries it out, not before, and asks for nothing else."""
    waiting = _refused()
    assert judge(waiting, after(30), POLICY) == Postponed(epoch=FIRST, due_at=after(60))
    due = judge(waiting, after(65), POLICY)
    assert isinstance(due, DecisionDue)
    assert apply(waiting, due, after(59.9)) == Refused(RefusalReason.NOT_OVERDUE)
    turned = told(waiting, due, now=after(65))
    assert (turned.task.direction, turned.history[0].ended_by) == (Direction.UNDO, EpochEnd.REFUSED)


def test_hold_waits_too() -> None:
    """In `Error` an operator could resubmit while the payment is being made."""
    waiting = _refused(Remedy.HOLD)
    assert waiting.task.process_state is ProcessState.PROCESSING
    for event in (resubmission(), undo_request()):
        assert apply(waiting, event, after(10)) == Refused(RefusalReason.OUTCOME_AWAITED)
    held = told(waiting, completed("pay"), now=after(50))
    assert (held.task.process_state, held.task.last_error) == (ProcessState.ERROR, "seat: no money")
    assert held.step(PAY).state is StepState.COMPLETED


def test_first_decision_stands() -> None:
    """A payment that is refused later changes nothing about why the task turned back."""
    turned = told(_refused(), failed("pay", error="no cover"), now=after(50))
    assert turned.history[0].reason == "seat: no money"
    assert turned.step(PAY).error == "no cover"


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


def test_recovery_waits_for_the_last_of_several_payments() -> None:
    """Then it is known that an outcome is unknown, and the task is held."""
    two = told(pending(FLOW), claimed(), started("pay", complete_by=20), started("other", complete_by=90))
    assert judge(two, after(30), POLICY) == Postponed(epoch=FIRST, due_at=after(90))
    verdict = judge(two, after(95), POLICY)
    assert isinstance(verdict, GivenUp)
    held = told(two, verdict, now=after(95))
    assert held.task.process_state is ProcessState.ERROR
    assert held.task.last_error == "pay: its outcome is unknown, and it must not run twice"


def test_operator_waits_for_a_payment_of_a_task_that_was_held_early() -> None:
    """The host that held it has a clock that is ahead."""
    held = told(_paying(Remedy.HOLD), giving_up(hold=True), now=after(61))
    cancelled = cancellation(by_operator=True)
    for event in (resubmission(), undo_request(), cancelled):
        assert apply(held, event, after(30)) == Refused(RefusalReason.OUTCOME_AWAITED)
    assert told(held, cancelled, now=after(62)).task.direction is Direction.UNDO


def test_nothing_is_due_without_a_decision() -> None:
    """Only what was decided is carried out."""
    due = DecisionDue(epoch=FIRST, start_by=after(300))
    assert apply(_paying(), due, after(65)) == Refused(RefusalReason.NOT_OVERDUE)


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
