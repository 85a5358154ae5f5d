"""How a decision ends an epoch: at once, or when what must not be repeated can't be done in time any more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from functions.pattern.epochs import finished, next_epoch, undoing
from functions.pattern.records import Decision, StepRecord, TaskRecord
from functions.pattern.states import Direction, ProcessState, StepState


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
    """Tell when the Supervisor must act: at the task's complete-by, but never while an outcome is awaited."""
    complete_by = record.task.complete_by or record.task.due_at
    until = awaited_until(record)
    return complete_by if until is None or now < complete_by else max(complete_by, until)


def decide(record: TaskRecord, decision: Decision, now: datetime, start_by: datetime) -> TaskRecord:
    """End the epoch of a task under way as decided, or let the decision wait; what was decided first, stands.

    `start_by` is when the next epoch must have started.
    """
    decision = record.task.decision or decision
    return carried_out(record, decision, now, start_by)


def carried_out(record: TaskRecord, decision: Decision, now: datetime, start_by: datetime) -> TaskRecord:
    """Carry out a decision as soon as no outcome is awaited any more; until then it waits on the record."""
    until = awaited_until(record)
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
        if step.never_twice:
            return f"{step.name}: its outcome is unknown, and it must not run twice{last_fault(step)}"
    return None
