"""Undo and cancellation: each dispatched step is undone in reverse order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.definition import Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.events import Parked
from functions.pattern.folding import Told, fold
from functions.pattern.identity import Epoch, StepName, scheduler_id
from functions.pattern.ready import ready_steps, undo_order
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.shape import read_shape
from functions.pattern.states import AnnouncementKind, Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.transitions import apply
from tests.fakes.clock import START
from tests.fakes.interventions import (
    TURNED,
    UNDOING,
    cancellation,
    done,
    giving_up,
    recovered,
    refused,
    resubmission,
    supervised,
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
    started,
    told,
)
from tests.fakes.workflows import DIAMOND, TASK, TRIP, step, trip, workflow

THIRD = Epoch(3)
CAR = StepName("car")
PAIR = workflow(step("second", "first", undo=True), step("first", undo=True), remedy=Remedy.COMPENSATE)


def _end(record: TaskRecord) -> ProcessState:
    return record.task.process_state


def test_refusal_turns_the_task_back() -> None:
    """The next epoch undoes; it has all recoveries to spend, and knows why it undoes."""
    task = TURNED.task
    assert (task.process_state, task.direction, task.epoch) == (ProcessState.PENDING, Direction.UNDO, SECOND)
    assert (task.failure_count, task.last_error, task.due_at) == (0, "car: no money", after(30))
    (closed,) = TURNED.history
    assert (closed.ended_by, closed.who, closed.direction) == (
        EpochEnd.REFUSED,
        "scheduler",
        Direction.DO,
    )
    assert closed.steps[2].error == "car: no money".removeprefix("car: ")


def test_undo_goes_in_reverse_order_of_dispatch() -> None:
    """One step at a time; a step without undo is passed over."""
    assert ready_steps(UNDOING) == ("car",)
    last = told(UNDOING, *done("car", epoch=SECOND))
    assert ready_steps(last) == ("flight",)
    assert ready_steps(told(last, *done("flight", epoch=SECOND))) == ()
    # Task is compensated when all is undone.
    task = told(UNDOING, *done("car", "flight", epoch=SECOND), now=after(9)).task
    assert (task.process_state, task.locked_by) == (ProcessState.COMPENSATED, None)
    assert (task.finished_at, task.last_error) == (after(9), "car: no money")


def test_order_of_dispatch_does_not_hang_on_clocks() -> None:
    """The second step was begun on a host whose clock is behind."""
    first = told(pending(PAIR), claimed(), *done("first"), now=after(10))
    both = told(first, started("second"), now=after(3))
    turned = supervised(both, giving_up())
    assert ready_steps(told(turned, claimed(SECOND))) == ("second",)


def test_step_of_unknown_outcome_is_undone() -> None:
    """Unknown is not "not done": the service may have done it without saying so."""
    lost = told(pending(TRIP), claimed(), started("flight"))
    turned = told(supervised(lost, giving_up()), claimed(SECOND))
    assert ready_steps(turned) == ("flight",)


def test_started_undo_has_its_own_complete_by() -> None:
    """The step is `Undoing`; when it was dispatched to be done stays known."""
    dispatched = UNDOING.step(CAR).started_at
    undoing = told(UNDOING, started("car", SECOND, complete_by=12), now=after(3))
    car = undoing.step(CAR)
    assert (car.state, car.complete_by, car.epoch) == (StepState.UNDOING, after(12), SECOND)
    assert car.started_at == dispatched
    assert (undoing.task.complete_by, undoing.task.due_at) == (after(12), after(12))


def test_undo_that_was_lost_is_taken_up_again() -> None:
    """In the next epoch, at the step that was under way."""
    lost = told(UNDOING, started("car", SECOND))
    again = told(recovered(lost), claimed(THIRD))
    assert again.task.failure_count == 1
    assert ready_steps(again) == ("car",)
    assert _end(told(again, *done("car", "flight", epoch=THIRD))) is ProcessState.COMPENSATED


def test_refused_undo_is_an_error_that_names_the_step() -> None:
    """What is left undone stays to be undone."""
    stuck = told(UNDOING, *refused("car", SECOND))
    assert (_end(stuck), stuck.task.last_error) == (ProcessState.ERROR, "undo of car: no money")
    assert (stuck.step(CAR).state, stuck.step(CAR).error) == (StepState.UNDOING, "no money")
    # A resubmitted undo continues.
    again = told(UNDOING, *refused("car", SECOND), resubmission(SECOND), claimed(THIRD))
    assert again.task.direction is Direction.UNDO
    undone = told(again, *done("car", "flight", epoch=THIRD))
    assert _end(undone) is ProcessState.COMPENSATED
    assert undone.step(CAR).error is None


def test_compensated_task_says_why_it_was_undone_whatever_held_its_undo_up() -> None:
    """Neither a recovery nor an operator's resubmission of the undo takes the place of the cause."""
    stuck = told(recovered(UNDOING), claimed(THIRD), *refused("car", THIRD))
    again = told(stuck, resubmission(THIRD), claimed(Epoch(4)))
    undone = told(again, *done("car", "flight", epoch=Epoch(4)))
    assert (_end(undone), undone.task.last_error) == (ProcessState.COMPENSATED, "car: no money")


@pytest.mark.parametrize(
    "of", [TRIP, workflow(step("walk"), remedy=Remedy.COMPENSATE)], ids=["never begun", "nothing to undo"]
)
def test_nothing_to_undo_is_compensated_at_once(of: Workflow) -> None:
    """No Scheduler need take it up."""
    given_up = supervised(pending(of), giving_up())
    assert (_end(given_up), given_up.task.epoch) == (ProcessState.COMPENSATED, SECOND)
    assert (given_up.task.locked_by, given_up.task.complete_by) == (None, None)
    assert given_up.task.last_error == "still overdue"


def test_refused_step_with_nothing_to_undo_is_compensated_at_once() -> None:
    """Its epoch is closed all the same."""
    walk = workflow(step("walk"), remedy=Remedy.COMPENSATE)
    turned = told(pending(walk), claimed(), *refused("walk"))
    assert (_end(turned), len(turned.history)) == (ProcessState.COMPENSATED, 1)


def test_operator_has_a_held_task_undone() -> None:
    """Also the step that was refused: an earlier try may have had an effect."""
    held = told(pending(trip(remedy=Remedy.HOLD)), claimed(), *done("flight", "hotel"), *refused("car"))
    turned = told(held, undo_request(FIRST), claimed(SECOND))
    assert turned.task.direction is Direction.UNDO
    assert ready_steps(turned) == ("car",)
    assert _end(told(turned, *done("car", "flight", epoch=SECOND))) is ProcessState.COMPENSATED


HOUR = 3600
OF = workflow(
    step("flight", undo=True),
    step("hotel", "flight"),
    step("car", "hotel", undo=True),
    remedy=Remedy.HOLD,
    cancel_within=HOUR,
)
BORN = pending(OF)
RUNNING = told(BORN, claimed(), *done("flight", "hotel"), started("car"))
PROCESSED = told(RUNNING, completed("car"))
HELD = told(RUNNING, failed("car"))


def _cancelled(record: TaskRecord, at: float = 1, *, by_operator: bool = False) -> TaskRecord | Refused:
    return apply(record, cancellation(by_operator=by_operator), after(at))


def _undone(record: TaskRecord) -> TaskRecord:
    """Undo the flight, after the car."""
    return told(record, claimed(SECOND), *done("car", "flight", epoch=SECOND))


def test_task_under_way_is_undone_with_what_is_unknown() -> None:
    """The car was begun; the next epoch undoes it, then the flight."""
    cancelled = told(RUNNING, cancellation())
    assert (cancelled.task.process_state, cancelled.task.direction) == (ProcessState.PENDING, Direction.UNDO)
    assert undo_order(cancelled) == ("car", "flight")
    assert starts_scheduler(RUNNING, cancelled)
    (closed,) = cancelled.history
    assert (closed.ended_by, closed.who, closed.reason) == (EpochEnd.CANCELLED, "carla", "not needed")
    assert _undone(cancelled).task.process_state is ProcessState.COMPENSATED


def test_what_was_never_begun_is_compensated_at_once() -> None:
    """Nobody needs a Scheduler; the notice says so."""
    record = replace(BORN, order=replace(BORN.order, reply_to="notices-demo"))
    cancelled = told(record, cancellation())
    assert cancelled.task.process_state is ProcessState.COMPENSATED
    assert [each.kind for each in announcements(record, cancelled)] == [AnnouncementKind.COMPENSATED]
    assert not starts_scheduler(record, cancelled)
    # A cancel counts in every epoch.
    again = recovered(told(BORN, claimed(), started("flight")))
    assert told(again, cancellation()).task.direction is Direction.UNDO


@pytest.mark.parametrize("at", [1, HOUR])
def test_processed_task_can_be_cancelled_for_a_while(at: int) -> None:
    """All its effects are undone, and its answer is no answer any more."""
    answered = replace(PROCESSED, task=replace(PROCESSED.task, answer=b"{}"))
    cancelled = _cancelled(answered, at)
    assert isinstance(cancelled, TaskRecord)
    assert (cancelled.task.answer, cancelled.task.finished_at) == (None, None)
    assert undo_order(cancelled) == ("car", "flight")
    assert _undone(cancelled).task.process_state is ProcessState.COMPENSATED
    # Undo after the end knows what was done.
    cancelled = told(told(RUNNING, completed("car", result=b'{"plate":"B-1"}')), cancellation())
    assert cancelled.step(CAR).result == b'{"plate":"B-1"}'


@pytest.mark.parametrize(
    ("record", "at", "reason"),
    [
        pytest.param(PROCESSED, HOUR + 1, RefusalReason.NOT_CANCELLABLE, id="too late"),
        pytest.param(
            told(pending(DIAMOND), claimed(), *done("open", "left", "right", "close")),
            0,
            RefusalReason.NOT_CANCELLABLE,
            id="never",
        ),
        pytest.param(HELD, 1, RefusalReason.FINISHED, id="Error"),
    ],
)
def test_caller_comes_too_late_and_an_operator_does_not(
    record: TaskRecord, at: int, reason: RefusalReason
) -> None:
    """The workflow's limits are the caller's."""
    assert _cancelled(record, at) == Refused(reason)
    cancelled = _cancelled(record, at, by_operator=True)
    assert isinstance(cancelled, TaskRecord)
    assert cancelled.task.direction is Direction.UNDO
    assert cancelled.history[-1].who == "olga"


def test_cancelled_twice_is_cancelled_once() -> None:
    """Also when all is undone, so that a request whose answer was lost can be repeated."""
    cancelled = told(RUNNING, cancellation())
    assert _cancelled(cancelled) is cancelled
    assert _cancelled(cancelled, by_operator=True) is cancelled
    compensated = _undone(cancelled)
    assert _cancelled(compensated) is compensated
    assert _cancelled(compensated, by_operator=True) == Refused(RefusalReason.FINISHED)


@pytest.mark.parametrize("now", [PROCESSED, HELD, recovered(RUNNING)], ids=["ended", "held", "epoch"])
def test_cancel_of_a_task_as_it_was_seen_undoes_no_other(now: TaskRecord) -> None:
    """What ends meanwhile was not meant; what only goes on was, and what is undone already stays so."""
    seen = replace(cancellation(by_operator=True), seen=RUNNING.task)
    assert apply(now, seen, after(1)) == Refused(RefusalReason.STALE_EPOCH)
    further = replace(RUNNING, task=replace(RUNNING.task, updated_at=after(1)))
    assert told(further, seen).task.direction is Direction.UNDO
    cancelled = told(now, cancellation(by_operator=True))
    assert apply(cancelled, seen, after(1)) is cancelled


def test_operator_has_a_stuck_undo_tried_again() -> None:
    """A caller can't: the operator has been alerted."""
    stuck = told(told(RUNNING, cancellation()), claimed(SECOND), *refused("car", SECOND))
    assert stuck.task.process_state is ProcessState.ERROR
    assert _cancelled(stuck) == Refused(RefusalReason.FINISHED)
    again = _cancelled(stuck, by_operator=True)
    assert isinstance(again, TaskRecord)
    assert (again.task.process_state, undo_order(again)) == (ProcessState.PENDING, ("car", "flight"))


ONCE = workflow(
    step("seat"), step("pay", idempotent=False, undo=True), step("mail", "seat"), remedy=Remedy.HOLD
)
PAYING = told(pending(ONCE), claimed(), started("seat"), started("pay", complete_by=60))


def test_what_must_not_be_repeated_is_waited_for() -> None:
    """Nothing more starts; when its outcome is known, the task is undone, with its result."""
    waiting = told(PAYING, cancellation(), completed("seat"))
    assert (waiting.task.process_state, waiting.task.epoch) == (ProcessState.PROCESSING, FIRST)
    assert ready_steps(waiting) == ()
    assert _cancelled(waiting) is waiting
    cancelled = told(waiting, completed("pay", result=b'{"receipt":1}'), now=after(50))
    assert (cancelled.task.direction, cancelled.task.epoch) == (Direction.UNDO, SECOND)
    assert cancelled.history[-1].ended_by is EpochEnd.CANCELLED
    assert cancelled.step(StepName("pay")).result == b'{"receipt":1}'
    # Outcome that is never known is undone as unknown.
    waiting = told(PAYING, cancellation())
    turned = supervised(waiting, giving_up())
    assert turned.history[-1].ended_by is EpochEnd.CANCELLED
    assert undo_order(turned) == ("pay",)


def test_cancel_outdoes_a_hold_that_waits() -> None:
    """The task would be in `Error` in a moment, and its caller wants it undone."""
    waiting = told(PAYING, failed("seat"), cancellation(), now=after(1))
    cancelled = told(waiting, completed("pay"), now=after(50))
    assert cancelled.task.direction is Direction.UNDO
    assert cancelled.step(StepName("seat")).error == "no money"
    # Undo that waits stays what it was.
    of = replace(ONCE, on_failure=Remedy.COMPENSATE)
    paying = told(pending(of), claimed(), started("seat"), started("pay", complete_by=60), failed("seat"))
    assert _cancelled(paying) is paying


def test_parked_task_is_cancelled_too() -> None:
    """It waits for no deployment any more, unless its undo needs one."""
    parking = Parked(epoch=FIRST, scheduler=scheduler_id(TASK, FIRST), reason="not deployed here")
    parked = told(BORN, claimed(), *done("flight"), parking)
    assert parked.task.is_parked
    cancelled = told(parked, cancellation())
    assert not cancelled.task.is_parked
    assert (cancelled.task.due_at, undo_order(cancelled)) == (after(300), ("flight",))


def test_end_and_cancel_that_come_together_are_both_taken() -> None:
    """Whichever comes first in the fold."""
    events = [Told(completed("car")), Told(cancellation())]
    for order in (events, events[::-1]):
        record = fold(RUNNING, order, START).record
        assert record.task.direction is Direction.UNDO
        assert record.step(CAR).state in {StepState.RUNNING, StepState.COMPLETED}


def test_cancel_within_needs_something_to_undo() -> None:
    """A cancelled task would be `Compensated` with all its effects."""
    with pytest.raises(DefinitionError, match="no step that can be undone"):
        workflow(step("charge"), cancel_within=HOUR)
    with pytest.raises(DefinitionError, match="cancel_within must be more than 0"):
        replace(OF, cancel_within=0)
    # Limit is the recorded one.
    assert read_shape(OF.shape.written).cancel_within == HOUR
    assert read_shape(DIAMOND.shape.written).cancel_within is None
