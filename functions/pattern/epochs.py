"""How a task ends, and how Supervisor and operators take it from one epoch to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from functions.pattern.events import (
    AnnouncementSent,
    GivenUp,
    MessageLost,
    OperatorEvent,
    Postponed,
    Recovered,
    RefusalReason,
    Refused,
    Released,
    Resubmitted,
    StepFailed,
)
from functions.pattern.identity import Epoch
from functions.pattern.records import (
    EpochRecord,
    LostMessage,
    PastStep,
    SentAnnouncement,
    StepRecord,
    TaskRecord,
)
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.texts import MAX_PAST_ERROR_BYTES, bounded

FINAL = frozenset({ProcessState.PROCESSED, ProcessState.ERROR, ProcessState.COMPENSATED})

#: Lost messages that a task's record names; all of them are recorded as rejected.
MOST_LOST = 20

#: Sent announcements that a task's record names: the latest.
MOST_SENT = 20

_UNDER_WAY = frozenset({StepState.RUNNING, StepState.UNDOING})

_SUPERVISOR = "supervisor"
_OVERDUE = "its complete-by time passed"


def moved(record: TaskRecord, now: datetime, latest: datetime) -> TaskRecord:
    """Set the task's complete-by to the earliest of its running steps, or to `latest`.

    The due time follows only when it would be too late: a task that runs quickly never moves it.
    """
    running = [each for each in record.steps if each.state in _UNDER_WAY and each.epoch == record.task.epoch]
    complete_by = min((each.complete_by for each in running if each.complete_by is not None), default=latest)
    due_at = min(record.task.due_at, complete_by)
    task = replace(record.task, complete_by=complete_by, due_at=due_at, updated_at=now)
    return replace(record, task=task)


def is_busy(record: TaskRecord) -> bool:
    """Tell whether a step is under way in the task's epoch."""
    return any(each.state in _UNDER_WAY and each.epoch == record.task.epoch for each in record.steps)


def finished(record: TaskRecord, state: ProcessState, now: datetime, *, error: str | None) -> TaskRecord:
    """End a task; `error` is why, for `Error`."""
    task = replace(
        record.task,
        process_state=state,
        locked_by=None,
        complete_by=None,
        parked_for=None,
        last_error=error,
        updated_at=now,
        finished_at=now,
    )
    return replace(record, task=task)


def next_epoch(
    record: TaskRecord,
    event: Recovered | GivenUp | Released | OperatorEvent | StepFailed,
    now: datetime,
    *,
    ended_by: EpochEnd,
    who: str,
    reason: str,
    failure_count: int = 0,
    not_before: datetime | None = None,
) -> TaskRecord:
    """Close this epoch and open the next, for a Scheduler that must have claimed it by `event.start_by`."""
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
        steps=tuple(map(_past, record.steps)),
        last_error=task.last_error,
        traceparent=None if isinstance(event, StepFailed) else event.traceparent,
    )
    opened = replace(
        task,
        process_state=ProcessState.PENDING,
        locked_by=None,
        complete_by=event.start_by,
        due_at=event.start_by,
        failure_count=failure_count,
        epoch=Epoch(task.epoch + 1),
        updated_at=now,
        not_before=not_before,
        parked_for=None,
        finished_at=None,
        last_error=reason,
    )
    return replace(record, task=opened, history=(*record.history, closed))


def _past(step: StepRecord) -> PastStep:
    return PastStep(
        name=step.name,
        state=step.state,
        complete_by=step.complete_by,
        started_at=step.started_at,
        finished_at=step.finished_at,
        epoch=step.epoch,
        error=None if step.error is None else bounded(step.error, MAX_PAST_ERROR_BYTES),
    )


def undoing(record: TaskRecord, now: datetime) -> TaskRecord:
    """Change a task's direction to undo; where nothing is to be undone, it is `Compensated` at once."""
    changed = replace(record, task=replace(record.task, direction=Direction.UNDO))
    if any(step.needs_undo for step in changed.steps):
        return changed
    return finished(changed, ProcessState.COMPENSATED, now, error=changed.task.last_error)


def message_lost(record: TaskRecord, event: MessageLost, now: datetime) -> TaskRecord:
    """Record that a message about the task was lost, once for each message."""
    known = any((lost.queue, lost.message_id) == (event.queue, event.message_id) for lost in record.lost)
    if known or len(record.lost) >= MOST_LOST:
        return record
    lost = LostMessage(queue=event.queue, message_id=event.message_id, reason=event.reason, at=now)
    return replace(record, task=replace(record.task, updated_at=now), lost=(*record.lost, lost))


def announcement_sent(record: TaskRecord, event: AnnouncementSent) -> TaskRecord:
    """Record that an announcement was sent; a repeat changes nothing."""
    kind, epoch = event.announcement.kind, event.announcement.epoch
    if any((sent.kind, sent.epoch) == (kind, epoch) for sent in record.task.sent):
        return record
    sent = SentAnnouncement(kind=kind, epoch=epoch, sent_at=event.sent_at)
    return replace(record, task=replace(record.task, sent=(*record.task.sent, sent)[-MOST_SENT:]))


def supervised(
    record: TaskRecord, event: Postponed | Recovered | GivenUp, now: datetime
) -> TaskRecord | Refused:
    """Apply what the Supervisor decided; a task that has gone on since then stays with its Scheduler."""
    complete_by = record.task.complete_by or record.task.due_at
    if record.task.is_parked:
        return Refused(RefusalReason.PARKED)
    match event:
        case Postponed():
            due_at = min(event.due_at, complete_by)
            if due_at == record.task.due_at:
                return record
            return replace(record, task=replace(record.task, due_at=due_at, updated_at=now))
        case Recovered() | GivenUp() if now < complete_by:
            return Refused(RefusalReason.NOT_OVERDUE)
        case Recovered():
            return next_epoch(
                record,
                event,
                now,
                ended_by=EpochEnd.RECOVERED,
                who=_SUPERVISOR,
                reason=_OVERDUE,
                failure_count=record.task.failure_count + 1,
                not_before=event.not_before,
            )
        case GivenUp():
            return _given_up(record, event, now)
        case _:
            assert_never(event)


def _given_up(record: TaskRecord, event: GivenUp, now: datetime) -> TaskRecord:
    if event.hold or record.order.shape.on_exhausted is Remedy.HOLD:
        return finished(record, ProcessState.ERROR, now, error=event.reason)
    opened = next_epoch(record, event, now, ended_by=EpochEnd.EXHAUSTED, who=_SUPERVISOR, reason=event.reason)
    return undoing(opened, now)


def operated(record: TaskRecord, event: OperatorEvent, now: datetime) -> TaskRecord | Refused:
    """Apply what an operator decided; only a task in `Error` can be resubmitted or undone."""
    if record.task.process_state is not ProcessState.ERROR:
        return Refused(RefusalReason.NOT_IN_ERROR)
    resubmitted = isinstance(event, Resubmitted)
    ended_by = EpochEnd.RESUBMITTED if resubmitted else EpochEnd.UNDO_REQUESTED
    opened = next_epoch(record, event, now, ended_by=ended_by, who=event.who, reason=event.reason)
    return _cleared(opened) if resubmitted else undoing(opened, now)


def _cleared(record: TaskRecord) -> TaskRecord:
    """Reset what did not succeed; what must not run twice runs again only because the operator says so."""
    steps = tuple(
        replace(step, state=StepState.NOT_STARTED, error=None)
        if step.state is StepState.FAILED or step.never_twice
        else step
        for step in record.steps
    )
    return replace(record, steps=steps)
