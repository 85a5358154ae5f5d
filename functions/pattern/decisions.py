"""How a decision ends an epoch: at once, or when what must not be repeated can't be done in time any more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from functions.pattern.epochs import finished, next_epoch, undoing
from functions.pattern.records import Decision, TaskRecord
from functions.pattern.states import Direction, EpochEnd, Expiry, ProcessState, Remedy, StepState
from functions.pattern.step_records import StepRecord


def awaited_until(record: TaskRecord) -> datetime | None:
    """Tell until when a running step that must not be repeated may be done in time; None without any."""
    return max(
        (step.complete_by for step in record.steps if step.never_twice and step.complete_by), default=None
    )


def is_awaited(record: TaskRecord, now: datetime) -> bool:
    """Tell whether the epoch can't end yet."""
    until = awaited_until(record)
    return until is not None and now < until


def due_by(record: TaskRecord, now: datetime) -> datetime:
    """Tell when the Supervisor must act: at the task's complete-by, but never while an outcome is awaited.

    One that is handed back has none: its first wait ends `not_before` then, however early it is looked at.
    """
    task = record.task
    complete_by = task.complete_by or (task.is_handed_back and task.not_before) or task.due_at
    until = awaited_until(record)
    return complete_by if until is None or now < complete_by else max(complete_by, until)


def decide(record: TaskRecord, decision: Decision, now: datetime, start_by: datetime) -> TaskRecord:
    """End the epoch of a task under way as decided, as soon as no outcome is awaited any more.

    Until then the decision waits on the record; what was decided first, stands. `start_by` is when the next
    epoch must have started.
    """
    decision, until = record.task.decision or decision, awaited_until(record)
    if until is not None and now < until:
        due_at = min(record.task.due_at, until)
        waiting = replace(record.task, decision=decision, complete_by=until, due_at=due_at, updated_at=now)
        return replace(record, task=waiting)
    if decision.ended_by is None:
        return finished(record, ProcessState.ERROR, now, error=decision.reason)
    opened = next_epoch(
        record,
        now,
        ended_by=decision.ended_by,
        who=decision.who,
        reason=decision.reason,
        start_by=start_by,
        traceparent=decision.traceparent,
    )
    return undoing(opened, now)


def known_end(record: TaskRecord, now: datetime, start_by: datetime) -> TaskRecord | None:
    """End an epoch as decided, or as a late outcome demands that was recorded on its step; None to go on."""
    if record.task.decision is not None:
        return decide(record, record.task.decision, now, start_by)
    if record.task.direction is Direction.UNDO:
        return None
    if all(step.settled for step in record.steps):
        return finished(record, ProcessState.PROCESSED, now, error=None)
    failed = (step for step in record.steps if step.state is StepState.FAILED)
    refused = next((step for step in failed if not step.settled), None)
    return None if refused is None else decide(record, refusal(record, refused), now, start_by)


def refusal(record: TaskRecord, step: StepRecord) -> Decision:
    """Decide what becomes of a task of which a service has refused a step: the step says, or its order."""
    is_question = step.shape.on_expiry is Expiry.HOLD  # nothing but its expiry fails an event's step
    remedy = Remedy.HOLD if is_question else step.shape.on_failure or record.order.shape.on_failure
    is_held = record.task.direction is Direction.UNDO or remedy is Remedy.HOLD
    return stopped_by(record, step, None if is_held else EpochEnd.REFUSED)


def stopped_by(record: TaskRecord, step: StepRecord, ended_by: EpochEnd | None) -> Decision:
    """Decide how the epoch ends of a task that a step has stopped, for the cause that is on record."""
    undo = "undo of " if record.task.direction is Direction.UNDO else ""
    return Decision(ended_by=ended_by, who="scheduler", reason=f"{undo}{step.name}: {step.error}")


def last_fault(step: StepRecord) -> str:
    """Say in brackets what went wrong with a step last; nothing when that is not known."""
    return "" if step.error is None else f" ({step.error})"


def in_question(record: TaskRecord) -> str | None:
    """Say what an operator has to find out before the steps can go on; None when there is nothing."""
    if record.task.direction is Direction.UNDO:
        return None
    for step in record.steps:
        if step.state is StepState.UNRECORDED:
            return f"{step.name}: {step.error}"
        if step.never_twice and not step.may_fail:
            return f"{step.name}: its outcome is unknown, and it must not run twice{last_fault(step)}"
    return None
