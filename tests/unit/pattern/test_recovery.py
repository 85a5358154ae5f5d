"""The judgement of the Supervisor, and each change from one epoch to the next."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from datetime import timedelta

import pytest

from functions.pattern.announcements import Announcement
from functions.pattern.epochs import MOST_SENT
from functions.pattern.events import (
    AnnouncementSent,
    Event,
    GivenUp,
    OperatorEvent,
    Postponed,
    Recovered,
    SupervisorEvent,
)
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import AnnouncementKind, Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.supervision import SupervisionPolicy, judge
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
from tests.fakes.workflows import LINE, TASK, TRIP, step, trip, workflow

THIRD = Epoch(3)
HOTEL = StepName("hotel")
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
    # Recovery keeps what is known of the steps.
    assert recovered(BOOKING).steps == BOOKING.steps
    # Failures are counted.
    twice = recovered(told(recovered(BOOKING), claimed(SECOND)))
    assert (twice.task.failure_count, twice.task.epoch) == (2, THIRD)
    # History names the scheduler that lost its task.
    (closed,) = recovered(BOOKING).history
    assert (closed.locked_by, closed.process_state) == ("task-1.1", ProcessState.PROCESSING)
    assert (closed.who, closed.ended_by) == ("supervisor", EpochEnd.RECOVERED)


def test_task_that_went_on_meanwhile_is_not_recovered() -> None:
    """The Supervisor judged an older record: what started since has its time."""
    assert apply(BOOKING, recovery(), after(19.9)) == Refused(RefusalReason.NOT_OVERDUE)
    assert apply(BOOKING, giving_up(), after(19.9)) == Refused(RefusalReason.NOT_OVERDUE)


def test_postponement_moves_the_due_time_only() -> None:
    """The task itself stays as it is."""
    early = replace(BOOKING, task=replace(BOOKING.task, due_at=after(5)))
    postponed = told(early, Postponed(epoch=FIRST, due_at=after(20)), now=after(6))
    assert postponed == replace(BOOKING, task=replace(BOOKING.task, due_at=after(20), updated_at=after(6)))
    # Postponement is never past a running step.
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
    # Given up task is held where undo would not be safe.
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
    # Resubmission resets the failure count.
    task = told(HELD, resubmission(), now=after(9)).task
    assert (task.process_state, task.epoch, task.failure_count) == (ProcessState.PENDING, SECOND, 0)
    assert (task.finished_at, task.due_at, task.updated_at) == (None, after(300), after(9))
    # Second operator is refused.
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
    # History keeps the error that an operator answered.
    again = told(HELD, resubmission())
    assert [closed.last_error for closed in again.history] == [HELD.task.last_error]
    assert again.task.last_error == SOLVED


def _once_only() -> TaskRecord:
    return told(pending(trip(hotel_idempotent=False)), claimed(), *done("flight"), started("hotel"))


def test_step_that_must_not_run_twice_is_refused_in_the_next_epoch() -> None:
    """Even where a Supervisor took the task away before the step was recorded."""
    again = told(recovered(_once_only()), claimed(SECOND))
    assert apply(again, started("hotel", SECOND), START) == Refused(RefusalReason.NEVER_TWICE)
    # Step that never ran has no outcome to fear.
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


POLICY = SupervisionPolicy(
    threshold=2,
    extended_waits=(timedelta(seconds=60), timedelta(seconds=300)),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=30),
)
RUNNING = told(pending(TRIP), claimed(), started("flight", complete_by=20))
LATE = after(25)


def _with_failures(record: TaskRecord, count: int) -> TaskRecord:
    return replace(record, task=replace(record.task, failure_count=count))


def _given_up(record: TaskRecord) -> GivenUp:
    verdict = judge(_with_failures(record, 4), after(1000), POLICY)
    assert isinstance(verdict, GivenUp)
    return verdict


def test_task_in_time_is_left_alone() -> None:
    """The Supervisor looks again when the running step must have completed."""
    assert judge(RUNNING, after(10), POLICY) == Postponed(epoch=FIRST, due_at=after(20))
    # Clocks may differ.
    assert isinstance(judge(RUNNING, after(24.999), POLICY), Postponed)
    assert isinstance(judge(RUNNING, after(25), POLICY), Recovered)


def test_task_that_was_never_picked_up_is_recovered() -> None:
    """A submission whose Scheduler was never started is found by the pick-up limit."""
    assert isinstance(judge(pending(LINE), after(34), POLICY), Postponed)
    assert isinstance(judge(pending(LINE), after(35), POLICY), Recovered)


@pytest.mark.parametrize("failures", [0, 1])
def test_up_to_the_threshold_recovery_comes_at_once(failures: int) -> None:
    """The next Scheduler has its usual time to take the task up."""
    verdict = judge(_with_failures(RUNNING, failures), LATE, POLICY)
    assert verdict == Recovered(epoch=FIRST, start_by=after(55), not_before=None)


@pytest.mark.parametrize(("failures", "wait"), [(2, 60), (3, 300)])
def test_waits_grow_above_the_threshold(failures: int, wait: float) -> None:
    """By up to a quarter more; the Scheduler's time begins after the extended wait."""
    verdict = judge(_with_failures(RUNNING, failures), LATE, POLICY)
    assert isinstance(verdict, Recovered)
    assert verdict.not_before is not None
    assert after(25 + wait) <= verdict.not_before <= after(25 + wait * 1.25)
    assert verdict.start_by == verdict.not_before + timedelta(seconds=30)


def test_tasks_that_failed_together_do_not_come_back_together() -> None:
    """Their waits differ, though each of them waits as long whenever it is asked."""
    failed = _with_failures(RUNNING, 2)
    tasks = [
        replace(failed, order=replace(failed.order, task=TaskId(f"task-{number}"))) for number in range(200)
    ]
    verdicts = [judge(task, LATE, POLICY) for task in tasks]
    assert verdicts == [judge(task, LATE, POLICY) for task in tasks]
    waits = Counter(verdict.not_before for verdict in verdicts if isinstance(verdict, Recovered))
    assert len(waits) > 100
    assert max(waits.values()) < 10


def test_task_is_not_overdue_during_its_extended_wait() -> None:
    """Neither while it waits nor while its Scheduler has time to take it up."""
    verdict = judge(_with_failures(RUNNING, 2), LATE, POLICY)
    assert isinstance(verdict, Recovered)
    waiting = supervised(RUNNING, verdict)
    assert judge(waiting, verdict.start_by, POLICY) == Postponed(epoch=SECOND, due_at=verdict.start_by)


def test_recovery_has_an_end() -> None:
    """After the last extended wait the task is given up, naming where it is stuck and how often."""
    verdict = _given_up(RUNNING)
    assert (verdict.epoch, verdict.hold) == (FIRST, False)
    assert verdict.reason == "flight: still overdue after 4 recoveries"
    assert verdict.start_by == after(1030)
    soon = replace(POLICY, threshold=1, extended_waits=())
    early = judge(_with_failures(RUNNING, 1), LATE, soon)
    assert isinstance(early, GivenUp)
    assert early.reason == "flight: still overdue after 1 recovery"
    # A task that is never claimed names no step.
    assert _given_up(pending(TRIP)).reason == "task: still overdue after 4 recoveries"


def test_undo_that_keeps_failing_is_held() -> None:
    """Undo is not undone; the operator learns which step is left."""
    turned = told(pending(TRIP), claimed(), *done("flight"), *refused("hotel"))
    undoing = told(turned, claimed(SECOND), started("flight", SECOND))
    verdict = _given_up(undoing)
    assert verdict.hold
    assert verdict.reason == "undo of flight: still overdue after 4 recoveries"


def test_step_that_must_not_run_twice_is_held_at_once() -> None:
    """Its outcome is unknown: neither another try nor an undo of the others is safe."""
    booking = told(
        pending(trip(hotel_idempotent=False)),
        claimed(),
        *done("flight"),
        started("hotel", complete_by=20),
    )
    verdict = judge(booking, LATE, POLICY)
    assert isinstance(verdict, GivenUp)
    assert verdict.hold
    assert verdict.reason == "hotel: its outcome is unknown, and it must not run twice"
    # An undo is recovered despite an unknown outcome.
    workflow = trip(hotel_idempotent=False)
    booking = told(pending(workflow), claimed(), *done("flight"), started("hotel"))
    turned = replace(booking, task=replace(booking.task, direction=Direction.UNDO))
    assert isinstance(judge(turned, LATE, POLICY), Recovered)


@pytest.mark.parametrize("state", ["Processed", "Compensated", "Error"])
def test_finished_task_is_nobodys_concern(state: str) -> None:
    """Whatever its due row says."""
    ends = {
        "Processed": told(pending(TRIP), claimed(), *done("flight", "hotel", "car")),
        "Compensated": supervised(pending(TRIP), giving_up()),
        "Error": supervised(pending(trip(remedy=Remedy.HOLD)), giving_up()),
    }
    assert ends[state].task.process_state == state
    assert judge(ends[state], after(10_000), POLICY) is None
