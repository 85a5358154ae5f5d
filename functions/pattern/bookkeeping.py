"""What every change of a record has to keep right: complete-by, due time, end, epoch."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from functions.pattern.events import MessageLost
from functions.pattern.identity import Epoch
from functions.pattern.records import EpochRecord, LostMessage, StepRecord, TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState

FINAL = frozenset({ProcessState.PROCESSED, ProcessState.ERROR, ProcessState.COMPENSATED})

#: Messages lost that a task's record names; all of them are kept among the rejected ones.
MOST_LOST = 20

_UNDER_WAY = frozenset({StepState.RUNNING, StepState.UNDOING})


def moved(record: TaskRecord, now: datetime, latest: datetime) -> TaskRecord:
    """Set the task's complete-by to the earliest of its running steps, or to `latest`.

    The due time follows only when it would be too late: a task that runs quickly never moves it.
    """
    times = [step.complete_by for step in record.steps if _is_under_way(record, step)]
    complete_by = min((time for time in times if time is not None), default=latest)
    due_at = min(record.task.due_at, complete_by)
    task = replace(record.task, complete_by=complete_by, due_at=due_at, updated_at=now)
    return replace(record, task=task)


def finished(record: TaskRecord, state: ProcessState, now: datetime, *, error: str | None) -> TaskRecord:
    """Let go of a task that reached an end; `error` is why, for `Error`."""
    task = replace(
        record.task,
        process_state=state,
        locked_by=None,
        complete_by=None,
        last_error=error,
        updated_at=now,
        finished_at=now,
    )
    return replace(record, task=task)


def next_epoch(
    record: TaskRecord,
    now: datetime,
    start_by: datetime,
    *,
    ended_by: EpochEnd,
    who: str,
    reason: str,
    failure_count: int,
    not_before: datetime | None = None,
    traceparent: str | None = None,
) -> TaskRecord:
    """Close this epoch and open the next, for a Scheduler that must have taken it by `start_by`."""
    task = record.task
    closed = EpochRecord(
        epoch=task.epoch,
        ended_by=ended_by,
        ended_at=now,
        who=who,
        reason=reason,
        process_state=task.process_state,
        direction=task.direction,
        locked_by=task.locked_by,
        steps=tuple(replace(step, result=None, token=None) for step in record.steps),
        last_error=task.last_error,
        traceparent=traceparent,
    )
    opened = replace(
        task,
        process_state=ProcessState.PENDING,
        locked_by=None,
        complete_by=start_by,
        due_at=start_by,
        failure_count=failure_count,
        epoch=Epoch(task.epoch + 1),
        updated_at=now,
        not_before=not_before,
        finished_at=None,
        last_error=reason,
    )
    return replace(record, task=opened, history=(*record.history, closed))


def turned_back(record: TaskRecord, now: datetime) -> TaskRecord:
    """Turn a task's direction to undo; where nothing is to be undone, it is `Compensated` at once."""
    turned = replace(record, task=replace(record.task, direction=Direction.UNDO))
    if any(step.needs_undo for step in turned.steps):
        return turned
    return finished(turned, ProcessState.COMPENSATED, now, error=turned.task.last_error)


def bereft(record: TaskRecord, event: MessageLost, now: datetime) -> TaskRecord:
    """Note that a message about the task was lost, once for each message."""
    known = any((lost.queue, lost.message_id) == (event.queue, event.message_id) for lost in record.lost)
    if known or len(record.lost) >= MOST_LOST:
        return record
    lost = LostMessage(queue=event.queue, message_id=event.message_id, reason=event.reason, at=now)
    task = replace(record.task, updated_at=now)
    return replace(record, task=task, lost=(*record.lost, lost))


def _is_under_way(record: TaskRecord, step: StepRecord) -> bool:
    return step.state in _UNDER_WAY and step.epoch == record.task.epoch
