"""What must hold of any one change of a task, whatever came before it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.epochs import FINAL
from functions.pattern.events import (
    AnnouncementSent,
    Cancelled,
    DecisionDue,
    Eased,
    Event,
    Extended,
    GivenUp,
    MessageLost,
    OperatorEvent,
    Recovered,
    Resubmitted,
    StepCompleted,
    StepFailed,
    StepNotTaken,
    StepOutcome,
    StepStarted,
)
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState, StepState
from functions.pattern.step_records import StepRecord
from functions.pattern.wait_events import ChildEnded, EventReceived, TurnedAway

#: Seconds after its end in which a caller can cancel the tasks of these tests.
CANCEL_WITHIN = 30


def is_late(before: TaskRecord, now: TaskRecord, event: Event) -> bool:
    """Tell whether an outcome was recorded although the task did not go on with it."""
    if isinstance(event, StepNotTaken) and before.task.process_state in FINAL:
        return now.task == before.task
    return isinstance(event, StepOutcome) and event.start_id is not None and now.task == before.task


def _may_be_done(step: StepRecord, at: datetime) -> bool:
    """Tell whether a step that must not be repeated is running, and has time."""
    return step.never_twice and step.complete_by is not None and at < step.complete_by


def is_refused(step: StepRecord) -> bool:
    """Tell whether a step that must not be repeated is known to be not done."""
    return step.state is StepState.FAILED and not step.shape.idempotent


def check_change(before: TaskRecord, now: TaskRecord, event: Event, at: datetime) -> None:
    """Check what must hold of any one change."""
    if isinstance(event, EventReceived | TurnedAway | ChildEnded) and before.task.process_state in FINAL:
        assert now.task == before.task, "an event that comes late changes its step only"
    else:
        _check_change(before, now, event, at)
        if isinstance(event, Eased):
            _check_easing(before, now, event)


def _check_change(before: TaskRecord, now: TaskRecord, event: Event, at: datetime) -> None:
    if is_late(before, now, event):
        right = StepName("right")
        assert now == before.with_step(now.step(right)), "a late outcome changes its step only"
        return
    if isinstance(event, MessageLost):
        as_it_was = replace(now.task, updated_at=before.task.updated_at)
        assert replace(now, task=as_it_was, lost=before.lost) == before
        return
    assert not isinstance(event, AnnouncementSent), "nobody in here sends any"
    if isinstance(event, Cancelled):
        _check_cancelling(before, now, event, at)
    assert getattr(event, "epoch", before.task.epoch) == before.task.epoch
    assert before.task.epoch <= now.task.epoch <= before.task.epoch + 1
    assert now.history[: len(before.history)] == before.history
    if before.task.direction is Direction.UNDO:
        assert now.task.direction is Direction.UNDO
    if before.task.process_state in FINAL and now is not before:
        assert isinstance(event, OperatorEvent | Cancelled)
        assert now.task.epoch == before.task.epoch + 1
    _check_waiting(before, now, event, at)
    scheduler = getattr(event, "scheduler", None)
    if scheduler is not None and now is not before:
        task = before.task  # a claim may find that all is done, and end it at once
        assert scheduler == (task.locked_by or scheduler_id(task.order_id, task.epoch, task.run))
    for old, new in zip(before.steps, now.steps, strict=True):
        if old.state is StepState.COMPLETED:
            is_noted = isinstance(event, ChildEnded) and replace(new, noted=None) == old
            assert new is old or new.state is StepState.UNDOING or is_noted
        if old.state is StepState.UNDONE:
            assert new is old


def _check_cancelling(before: TaskRecord, now: TaskRecord, event: Cancelled, at: datetime) -> None:
    """Check that it leads to an undo, at once or soon, and that a caller comes in time."""
    decision = now.task.decision
    assert now.task.direction is Direction.UNDO or (decision is not None and decision.ended_by is not None)
    if not event.by_operator and now is not before:
        finished_at = before.task.finished_at
        assert before.task.process_state is not ProcessState.ERROR
        assert finished_at is None or at <= finished_at + timedelta(seconds=CANCEL_WITHIN)


def _check_easing(before: TaskRecord, now: TaskRecord, event: Eased) -> None:
    """Check that a crowd costs a task nothing but time, unless what is known of it ends it."""
    if now.task.epoch == before.task.epoch and now.task.extended != before.task.extended:
        assert isinstance(event, Extended)
        assert (now.steps, now.history) == (before.steps, before.history)
        assert now.task.locked_by == before.task.locked_by
    if now.task.direction is before.task.direction:
        assert now.task.failure_count == before.task.failure_count


def _check_waiting(before: TaskRecord, now: TaskRecord, event: Event, at: datetime) -> None:
    """Nothing ends, and nothing starts, round a step that must not be repeated."""
    if now.task.epoch != before.task.epoch or now.task.process_state in FINAL:
        assert not any(_may_be_done(each, at) for each in now.steps), "its outcome is awaited"
    if isinstance(event, Resubmitted) and before.task.direction is Direction.DO:
        assert not any(each.never_twice for each in before.steps), "an answer comes first"
    if before.task.decision is not None:
        assert not isinstance(event, StepStarted) or now is before, "it is decided how the epoch ends"


def check_time(before: TaskRecord, event: Event, now: datetime) -> None:
    """No outcome is taken late, and no task is taken from its Scheduler early."""
    if isinstance(event, StepCompleted | StepFailed):
        complete_by = before.step(event.step).complete_by
        assert complete_by is not None
        assert now <= complete_by
    if isinstance(event, Recovered | GivenUp | DecisionDue | Eased):
        assert now >= (before.task.complete_by or before.task.due_at)
