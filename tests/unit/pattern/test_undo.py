"""Undo: every step that was ever dispatched, in reverse order, until all is as it was."""

from __future__ import annotations

import pytest

from functions.pattern.definition import Workflow
from functions.pattern.errors import IllegalTransitionError
from functions.pattern.identity import Epoch, StepName
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.transitions import apply
from tests.fakes.clock import START
from tests.fakes.interventions import (
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
    unrecorded,
)
from tests.fakes.workflows import TRIP, step, trip, workflow

THIRD = Epoch(3)
FLIGHT, CAR = StepName("flight"), StepName("car")
TURNED = told(pending(TRIP), claimed(), *done("flight", "hotel"), *refused("car"))
UNDOING = told(TURNED, claimed(SECOND))
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


def test_order_of_dispatch_does_not_hang_on_clocks() -> None:
    """The second step was begun on a host whose clock is behind."""
    first = told(pending(PAIR), claimed(), *done("first"), now=after(10))
    both = told(first, started("second"), now=after(3))
    turned = supervised(both, giving_up())
    assert ready_steps(told(turned, claimed(SECOND))) == ("second",)


def test_task_is_compensated_when_all_is_undone() -> None:
    """With the reason for which it was turned back."""
    task = told(UNDOING, *done("car", "flight", epoch=SECOND), now=after(9)).task
    assert (task.process_state, task.locked_by) == (ProcessState.COMPENSATED, None)
    assert (task.finished_at, task.last_error) == (after(9), "car: no money")


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


def test_resubmitted_undo_goes_on_undoing() -> None:
    """In the direction in which it stopped."""
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


def test_late_undo_is_refused() -> None:
    """As a late do is."""
    undoing = told(UNDOING, started("car", SECOND, complete_by=12))
    assert apply(undoing, completed("car", SECOND), after(12.1)) == Refused(RefusalReason.LATE)


@pytest.mark.parametrize("event", [completed("flight"), failed("flight")], ids=["completed", "failed"])
def test_late_do_changes_nothing_after_the_turn(event: object) -> None:
    """It comes from the epoch before."""
    assert isinstance(event, type(completed("flight")) | type(failed("flight")))
    assert apply(UNDOING, event, START) == Refused(RefusalReason.STALE_EPOCH)


def test_undone_twice_is_told_again() -> None:
    """The same record comes back, so that nothing is written; also after the end."""
    undone = told(UNDOING, *done("car", epoch=SECOND))
    assert told(undone, completed("car", SECOND)) is undone
    compensated = told(undone, *done("flight", epoch=SECOND))
    assert told(compensated, completed("flight", SECOND)) is compensated


def test_step_that_was_never_dispatched_is_not_undone() -> None:
    """Nor is one that can't be undone: a defect, never written."""
    turned = told(pending(TRIP), claimed(), *done("flight"), *refused("hotel"), claimed(SECOND))
    for wrong in ("car", "hotel"):
        with pytest.raises(IllegalTransitionError):
            apply(turned, started(wrong, SECOND), START)


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


def test_undo_has_no_result_to_record() -> None:
    """So it can't be that it was done, but its result can't be recorded: a defect, never written."""
    with pytest.raises(IllegalTransitionError):
        apply(told(UNDOING, started("car", SECOND)), unrecorded("car", SECOND), START)
