"""How a task moves within its epoch, how it ends, and how one epoch follows another."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.events import AnnouncementSent, MessageLost
from functions.pattern.identity import Epoch
from functions.pattern.records import EpochRecord, LostMessage, SentAnnouncement, TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState, Way
from functions.pattern.step_records import PastStep, StepRecord
from functions.pattern.texts import MAX_ERROR_BYTES, MAX_PAST_ERROR_BYTES, bounded

FINAL = frozenset({ProcessState.PROCESSED, ProcessState.ERROR, ProcessState.COMPENSATED})

#: Lost messages that a task's record names; all of them are recorded as rejected.
MOST_LOST = 20

#: Sent announcements that a task's record names: the latest.
MOST_SENT = 20

#: A wait that is longer is left to the record; a shorter one is sat out by its Scheduler.
HAND_BACK_AFTER = timedelta(seconds=60)

#: What is noted of a step that must not be repeated, of unknown outcome, when its task is undone without it.
UNKNOWN_AND_STAYS = "its outcome is unknown, and it has no undo: if it was done, it stands"

#: Ways in which nothing is done to anything.
_WITHOUT_EFFECT = frozenset({Way.EVENT, Way.TIMER})

#: Ends after which a task goes on as before: what crowds have cost it is not forgotten.
_SUPERVISED = frozenset({EpochEnd.RECOVERED, EpochEnd.RESUMED, EpochEnd.RELEASED})

#: The state of a step that is under way, in each direction.
UNDER_WAY = {Direction.DO: StepState.RUNNING, Direction.UNDO: StepState.UNDOING}


def moved(record: TaskRecord, now: datetime, latest: datetime, *, is_ready: bool = False) -> TaskRecord:
    """Set the task's complete-by to the earliest of its running steps, or to `latest`.

    A wait that its Scheduler sits out is no running step, but nothing need start before it ends.
    When something `is_ready` that its Scheduler may not have heard of, `latest` is the latest indeed; and
    when a step can be dispatched in the next epoch only, which nothing delays any more.
    The due time follows only when it would be too late: a task that runs quickly never moves it.
    """
    running = first_end(record)
    waits = [each.complete_by for each in record.steps if each.is_waiting and each.complete_by]
    short = [until for until in waits if until <= now + HAND_BACK_AFTER]
    complete_by = max([latest, *short]) if running is None else running
    complete_by = min(complete_by, latest) if is_ready else complete_by
    if is_exhausted(record):
        complete_by = min(complete_by, latest, record.task.complete_by or latest)
    due_at = min(record.task.due_at, complete_by)
    task = replace(record.task, complete_by=complete_by, due_at=due_at, updated_at=now)
    return replace(record, task=task)


def first_end(record: TaskRecord) -> datetime | None:
    """Tell when the first of the steps under way is overdue; None for none."""
    ends = (each.complete_by for each in record.steps if _is_under_way(each, record))
    return min((end for end in ends if end is not None), default=None)


def is_busy(record: TaskRecord) -> bool:
    """Tell whether a step is under way in the task's epoch; one that only waits is not."""
    return any(_is_under_way(each, record) for each in record.steps)


def is_exhausted(record: TaskRecord) -> bool:
    """Tell whether a step was dispatched in vain so often in this epoch that it needs another."""
    return any(waited_in_vain(step, record) for step in record.steps)


def waited_in_vain(step: StepRecord, record: TaskRecord) -> bool:
    """Tell whether a step is open that was dispatched in vain so often, as its requests waited too long."""
    is_open = step.state in {StepState.NOT_STARTED, StepState.UNDOING}
    return is_open and step.was_not_taken and not step.may_be_dispatched(record.task.epoch)


def _is_under_way(step: StepRecord, record: TaskRecord) -> bool:
    is_of_epoch = step.state.is_under_way and step.epoch == record.task.epoch
    return is_of_epoch and not step.was_not_taken and not step.shape.via.waits


def awaited(record: TaskRecord) -> tuple[StepRecord, ...]:
    """Give the steps that wait, in the direction in which the task goes."""
    state = UNDER_WAY[record.task.direction]
    return tuple(step for step in record.steps if step.is_waiting and step.state is state)


def handed_back(record: TaskRecord, now: datetime, until: datetime) -> TaskRecord:
    """Have nobody hold a task until a wait ends, in the same epoch."""
    task = replace(
        record.task,
        process_state=ProcessState.PENDING,
        locked_by=None,
        complete_by=None,
        not_before=until,
        due_at=until,
        updated_at=now,
    )
    return replace(children_handed_over(record), task=task)


def children_handed_over(record: TaskRecord) -> TaskRecord:
    """Note that the children of a task that is let go of are known to be there."""
    steps = tuple(
        replace(step, handed_over=True) if is_child and not step.handed_over else step
        for step in record.steps
        for is_child in [step.is_waiting and step.shape.via is Way.WORKFLOW]
    )
    return replace(record, steps=steps)


def next_run(
    record: TaskRecord, now: datetime, start_by: datetime, *, not_before: datetime | None = None
) -> TaskRecord:
    """Give a task to the next run of its epoch, whose Scheduler must have claimed it by `start_by`."""
    task = replace(
        record.task,
        process_state=ProcessState.PENDING,
        locked_by=None,
        complete_by=start_by,
        not_before=not_before,
        due_at=start_by,
        run=(record.task.run or 0) + 1,
        updated_at=now,
    )
    return replace(record, task=task)


def finished(record: TaskRecord, state: ProcessState, now: datetime, *, error: str | None) -> TaskRecord:
    """End a task; `error` is why, for `Error`."""
    task = replace(
        record.task,
        process_state=state,
        locked_by=None,
        complete_by=None,
        parked_for=None,
        last_error=error,
        decision=None,
        updated_at=now,
        finished_at=now,
    )
    return replace(record, task=task)


def next_epoch(
    record: TaskRecord,
    now: datetime,
    *,
    ended_by: EpochEnd,
    who: str,
    reason: str,
    start_by: datetime,
    traceparent: str | None = None,
    failure_count: int = 0,
    not_before: datetime | None = None,
) -> TaskRecord:
    """Close this epoch and open the next, for a Scheduler that must have claimed it by `start_by`."""
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
        run=task.run,
        steps=tuple(map(_past, record.steps)),
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
        run=None,
        updated_at=now,
        not_before=not_before,
        parked_for=None,
        parked_reasons=task.parked_reasons if ended_by is EpochEnd.RELEASED else (),
        extended=task.extended if ended_by in _SUPERVISED else None,
        finished_at=None,
        last_error=reason,
        answer=None,
        decision=None,
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
        start_id=None if step.shape.idempotent else step.start_id,
    )


def undoing(record: TaskRecord, now: datetime) -> TaskRecord:
    """Change a task's direction to undo; where nothing is to be undone, it is `Compensated` at once.

    What no undo covers, and may stand nevertheless, is noted; what only waits is not needed any more.
    """
    steps = tuple(_turned_back(step, now) for step in record.steps)
    changed = replace(record, task=replace(record.task, direction=Direction.UNDO), steps=steps)
    if any(step.needs_undo for step in changed.steps):
        return changed
    return compensated(changed, now)


def compensated(record: TaskRecord, now: datetime) -> TaskRecord:
    """End a task that is undone, for the reason for which it was turned back, whatever held its undo up."""
    turned = (closed.reason for closed in reversed(record.history) if closed.direction is Direction.DO)
    return finished(record, ProcessState.COMPENSATED, now, error=next(turned, record.task.last_error))


def _turned_back(step: StepRecord, now: datetime) -> StepRecord:
    if step.shape.via in _WITHOUT_EFFECT and step.state is StepState.RUNNING:
        return replace(step, state=StepState.SKIPPED, finished_at=now)
    return replace(step, noted=UNKNOWN_AND_STAYS) if step.in_doubt and not step.shape.undo else step


def message_lost(record: TaskRecord, event: MessageLost, now: datetime) -> TaskRecord:
    """Record that a message about the task was lost, once for each message."""
    known = any((lost.queue, lost.message_id) == (event.queue, event.message_id) for lost in record.lost)
    if known or len(record.lost) >= MOST_LOST:
        return record
    reason = bounded(event.reason, MAX_ERROR_BYTES)
    lost = LostMessage(queue=event.queue, message_id=event.message_id, reason=reason, at=now)
    return replace(record, task=replace(record.task, updated_at=now), lost=(*record.lost, lost))


def announcement_sent(record: TaskRecord, event: AnnouncementSent) -> TaskRecord:
    """Record that an announcement was sent; a repeat changes nothing.

    An alert for the same cause that was sent before this one was made is no repeat of it.
    """
    of = event.announcement
    sent = SentAnnouncement(kind=of.kind, epoch=of.epoch, sent_at=event.sent_at, cause=of.cause, step=of.step)
    known = [each for each in record.task.sent if each.sent_at >= of.at]
    if any(replace(each, sent_at=event.sent_at) == sent for each in known):
        return record
    return replace(record, task=replace(record.task, sent=(*record.task.sent, sent)[-MOST_SENT:]))
