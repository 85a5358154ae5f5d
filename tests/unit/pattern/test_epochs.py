"""From one epoch to the next: recovered, given up, resubmitted, undone on request."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from functions.pattern.announcements import Announcement
from functions.pattern.epochs import MOST_SENT
from functions.pattern.events import AnnouncementSent, Event, OperatorEvent, Postponed, SupervisorEvent
from functions.pattern.identity import Epoch, StepName
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import AnnouncementKind, Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.transitions import apply
from tests.fakes.clock import START
from tests.fakes.interventions import (
    OPERATOR,
    SOLVED,
    done,
    giving_up,
    recovered,
    recovery,
    refused,
    resubmission,
    supervised,
    undo_request,
)
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, TRIP, step, trip, workflow

THIRD = Epoch(3)
FLIGHT, HOTEL, CAR = StepName("flight"), StepName("hotel"), StepName("car")
FLOWN = told(pending(TRIP), claimed(), *done("flight"))
BOOKING = told(FLOWN, started("hotel", complete_by=20))
HELD = told(pending(trip(remedy=Remedy.HOLD)), claimed(), *done("flight"), *refused("hotel"))
SUPERVISOR_EVENTS: list[SupervisorEvent] = [Postponed(epoch=FIRST, due_at=after(60)), recovery(), giving_up()]
OPERATOR_EVENTS: list[OperatorEvent] = [resubmission(), undo_request()]


def _name(event: Event) -> str:
    return type(event).__name__


def test_recovery_opens_the_next_epoch() -> None:
    """`Pending`, held by nobody, one failure more, due when its Scheduler must have taken it."""
    task = supervised(BOOKING, recovery(start_by=55, not_before=after(40))).task
    assert (task.process_state, task.locked_by, task.epoch) == (ProcessState.PENDING, None, SECOND)
    assert (task.failure_count, task.direction) == (1, Direction.DO)
    assert (task.complete_by, task.due_at, task.not_before) == (after(55), after(55), after(40))
    assert task.last_error == "its complete-by time passed"


def test_recovery_keeps_what_is_known_of_the_steps() -> None:
    """Completed steps keep their results, and the lost one stays as it was lost."""
    assert recovered(BOOKING).steps == BOOKING.steps


def test_failures_are_counted() -> None:
    """One for each recovery, and none for a pick-up in time."""
    twice = recovered(told(recovered(BOOKING), claimed(SECOND)))
    assert (twice.task.failure_count, twice.task.epoch) == (2, THIRD)


def test_task_that_went_on_meanwhile_is_not_recovered() -> None:
    """The Supervisor judged an older record: what started since has its time."""
    assert apply(BOOKING, recovery(), after(19.9)) == Refused(RefusalReason.NOT_OVERDUE)
    assert apply(BOOKING, giving_up(), after(19.9)) == Refused(RefusalReason.NOT_OVERDUE)


def test_postponement_moves_the_due_time_only() -> None:
    """The task itself stays as it is."""
    early = replace(BOOKING, task=replace(BOOKING.task, due_at=after(5)))
    postponed = told(early, Postponed(epoch=FIRST, due_at=after(20)), now=after(6))
    assert postponed == replace(BOOKING, task=replace(BOOKING.task, due_at=after(20), updated_at=after(6)))


def test_postponement_is_never_past_a_running_step() -> None:
    """The Supervisor may have judged before the step started."""
    assert told(BOOKING, Postponed(epoch=FIRST, due_at=after(60))) is BOOKING


@pytest.mark.parametrize("event", [*SUPERVISOR_EVENTS, *OPERATOR_EVENTS], ids=_name)
def test_decision_about_an_older_epoch_counts_for_nothing(event: Event) -> None:
    """Of two Supervisors, or two operators, the second is refused."""
    assert apply(recovered(BOOKING), event, after(1000)) == Refused(RefusalReason.STALE_EPOCH)


@pytest.mark.parametrize("event", SUPERVISOR_EVENTS, ids=_name)
def test_supervisor_leaves_finished_tasks_alone(event: SupervisorEvent) -> None:
    """Only an operator leads out of an end."""
    assert apply(HELD, event, after(1000)) == Refused(RefusalReason.FINISHED)


@pytest.mark.parametrize("event", OPERATOR_EVENTS, ids=_name)
@pytest.mark.parametrize("record", [BOOKING, told(FLOWN, *done("hotel", "car"))], ids=["held", "Processed"])
def test_operator_acts_on_errors_only(record: TaskRecord, event: OperatorEvent) -> None:
    """A task under way, or done, is not the operator's."""
    assert apply(record, event, START) == Refused(RefusalReason.NOT_IN_ERROR)


def test_given_up_task_is_held_where_its_workflow_says_so() -> None:
    """`Error` with the reason, in the same epoch; nobody holds it."""
    booking = told(pending(trip(remedy=Remedy.HOLD)), claimed(), started("flight"))
    given_up = supervised(booking, giving_up())
    task = given_up.task
    assert (task.process_state, task.locked_by, task.epoch) == (ProcessState.ERROR, None, FIRST)
    assert (task.last_error, task.direction) == ("still overdue", Direction.DO)
    assert given_up.history == ()


def test_given_up_task_is_held_where_undo_would_not_be_safe() -> None:
    """Whatever its workflow says."""
    paying = told(pending(workflow(step("pay", idempotent=False))), claimed(), started("pay"))
    assert supervised(paying, giving_up(hold=True)).task.process_state is ProcessState.ERROR


def test_given_up_task_is_turned_back() -> None:
    """What was dispatched is undone, in the next epoch, with all recoveries to spend."""
    given_up = supervised(recovered(FLOWN), giving_up(SECOND))
    task = given_up.task
    assert (task.process_state, task.direction) == (ProcessState.PENDING, Direction.UNDO)
    assert (task.epoch, task.failure_count, task.last_error) == (THIRD, 0, "still overdue")
    assert [closed.ended_by for closed in given_up.history] == [EpochEnd.RECOVERED, EpochEnd.EXHAUSTED]


def test_resubmitted_task_resumes_at_the_failed_step() -> None:
    """What was completed stays so; the failed step is as if it had never been begun."""
    again = told(HELD, resubmission(), claimed(SECOND))
    assert [step.state for step in again.steps] == [
        StepState.COMPLETED,
        StepState.NOT_STARTED,
        StepState.NOT_STARTED,
    ]
    assert again.step(HOTEL).error is None
    assert told(again, *done("hotel", "car", epoch=SECOND)).task.process_state is ProcessState.PROCESSED


def test_resubmission_starts_the_count_anew() -> None:
    """And is no end any more."""
    task = told(HELD, resubmission(), now=after(9)).task
    assert (task.process_state, task.epoch, task.failure_count) == (ProcessState.PENDING, SECOND, 0)
    assert (task.finished_at, task.due_at, task.updated_at) == (None, after(300), after(9))


def test_second_operator_is_refused() -> None:
    """Of two operators at once one wins."""
    assert apply(told(HELD, resubmission()), undo_request(), START) == Refused(RefusalReason.STALE_EPOCH)


def test_history_keeps_how_the_epoch_stood_when_it_ended() -> None:
    """With the failure that the resubmission clears; results are kept by the steps alone."""
    (closed,) = told(HELD, resubmission(), now=after(9)).history
    assert (closed.epoch, closed.ended_by, closed.ended_at) == (FIRST, EpochEnd.RESUBMITTED, after(9))
    assert (closed.who, closed.reason) == (OPERATOR, SOLVED)
    assert (closed.process_state, closed.direction, closed.locked_by) == (
        ProcessState.ERROR,
        Direction.DO,
        None,
    )
    assert [step.state for step in closed.steps] == [step.state for step in HELD.steps]
    assert closed.steps[1].error == "no money"
    assert {field.name for field in fields(closed.steps[0])}.isdisjoint({"result", "token", "shape"})


def test_history_keeps_the_error_that_an_operator_answered() -> None:
    """The task's own last error is the operator's reason from then on."""
    again = told(HELD, resubmission())
    assert [closed.last_error for closed in again.history] == [HELD.task.last_error]
    assert again.task.last_error == SOLVED


def test_history_names_the_scheduler_that_lost_its_task() -> None:
    """And the Supervisor that took it away."""
    (closed,) = recovered(BOOKING).history
    assert (closed.locked_by, closed.process_state) == ("task-1.1", ProcessState.PROCESSING)
    assert (closed.who, closed.ended_by) == ("supervisor", EpochEnd.RECOVERED)


def _once_only() -> TaskRecord:
    return told(pending(trip(hotel_idempotent=False)), claimed(), *done("flight"), started("hotel"))


def test_step_that_must_not_run_twice_is_refused_in_the_next_epoch() -> None:
    """Even where a Supervisor took the task away before the step was recorded."""
    again = told(recovered(_once_only()), claimed(SECOND))
    assert apply(again, started("hotel", SECOND), START) == Refused(RefusalReason.NEVER_TWICE)


def test_step_that_never_ran_has_no_outcome_to_fear() -> None:
    """A task is recovered freely before a step that must not run twice."""
    before = told(pending(trip(hotel_idempotent=False)), claimed(), *done("flight"))
    again = told(recovered(before), claimed(SECOND), started("hotel", SECOND), completed("hotel", SECOND))
    assert again.step(HOTEL).state is StepState.COMPLETED
    assert before.step(HOTEL).never_twice is False


def test_sent_announcement_is_recorded_once() -> None:
    """Whatever became of the task meanwhile; only the latest are kept."""
    record = pending()
    notice = Announcement(
        kind=AnnouncementKind.RECEIVED,
        task=TASK,
        epoch=FIRST,
        at=START,
        workflow="diamond",
        state=ProcessState.PENDING,
        reply_to="notices",
        correlation_id=None,
        reason=None,
    )
    sent = told(record, AnnouncementSent(announcement=notice, sent_at=after(1)))
    assert [(each.kind, each.sent_at) for each in sent.task.sent] == [(AnnouncementKind.RECEIVED, after(1))]
    assert told(sent, AnnouncementSent(announcement=notice, sent_at=after(2))) is sent
    for epoch in range(2, MOST_SENT + 2):
        later = replace(notice, epoch=Epoch(epoch))
        sent = told(sent, AnnouncementSent(announcement=later, sent_at=after(3)))
    assert [each.epoch for each in sent.task.sent] == list(range(2, MOST_SENT + 2))
