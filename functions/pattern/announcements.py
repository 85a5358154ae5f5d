"""The notices to callers and alerts to operators that follow from a change: recorded with it, then sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from functions.pattern.definition import Json
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.plain_reasons import plain_reason
from functions.pattern.records import Task, TaskRecord
from functions.pattern.states import AlertCause, AnnouncementKind, EpochEnd, ProcessState, StepState, Way
from functions.pattern.texts import MAX_ERROR_BYTES, bounded, mark_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One message about one task. A repeat has the same `message_id`."""

    kind: AnnouncementKind
    task: TaskId
    epoch: Epoch
    at: datetime
    workflow: str
    state: ProcessState
    reply_to: str | None
    correlation_id: str | None
    reason: str | None
    answer: Json | None = None
    #: Of an alert only; the step, if it is about one.
    cause: AlertCause | None = None
    step: StepName | None = None

    @property
    def message_id(self) -> str:
        """Name the message, so that duplicate detection drops a repeat, and nothing else.

        In one epoch a task can be parked for several reasons, and a step noted more than once.
        """
        has_more = self.cause in {AlertCause.PARKED, AlertCause.NOTED}
        about = mark_of(self.reason or "") if has_more else None
        parts = (self.task, self.epoch, self.kind, self.cause, self.step, about)
        return ".".join(str(part) for part in parts if part is not None)


_ENDS = {
    ProcessState.PROCESSED: AnnouncementKind.COMPLETED,
    ProcessState.ERROR: AnnouncementKind.FAILED,
    ProcessState.COMPENSATED: AnnouncementKind.COMPENSATED,
}


def announcements(before: TaskRecord | None, after: TaskRecord) -> tuple[Announcement, ...]:
    """Name the announcements that follow from a change, or from a new task (`before` is None)."""
    found: list[Announcement] = []
    if before is None:
        found += _notice(AnnouncementKind.RECEIVED, after)
    elif after.task.process_state in _ENDS and after.task.process_state is not before.task.process_state:
        found += _notice(_ENDS[after.task.process_state], after)
        if after.order.parent is not None and after.task.process_state is not ProcessState.ERROR:
            ended = _announcement(AnnouncementKind.ENDED, after, after.task.epoch)
            found.append(replace(ended, answer=None))
    if before is not None:
        cause = _alert_cause(before, after)
        if cause is not None:
            of = before if cause is AlertCause.EXHAUSTED else after  # that which was closed, or is open now
            found.append(_alert(cause, after, of.task.epoch))
        found += _noted(before, after)
    return tuple(found)


def starts_scheduler(before: TaskRecord, after: TaskRecord) -> bool:
    """Tell whether a Scheduler must be asked for: of the next epoch or run, or of the same one again."""
    old, new = before.task, after.task
    is_next = (new.epoch, new.run or 0) > (old.epoch, old.run or 0)
    is_asked_again = _asked(new) > _asked(old)
    return new.process_state is ProcessState.PENDING and (is_next or is_asked_again) and not new.is_parked


def _asked(task: Task) -> int:
    return 0 if task.extended is None else task.extended.asked


def wakes_scheduler(before: TaskRecord, after: TaskRecord) -> StepName | None:
    """Name a step that ended without its Scheduler, which holds the task and has to hear of that.

    Its event came, its task ended, or no reply of its Agent came in time.
    """
    if after.task.locked_by is None:
        return None
    for old, new in zip(before.steps, after.steps, strict=True):
        has_come = old.received is None and new.received is not None
        is_missed = new.given_up and new.shape.via is Way.QUEUE
        is_child = new.shape.via is Way.WORKFLOW and old.is_waiting and not new.is_waiting
        if is_child or (old.state is StepState.RUNNING and (has_come or is_missed)):
            return new.name
    return None


def _alert_cause(before: TaskRecord, after: TaskRecord) -> AlertCause | None:
    """Tell why a change alarms operators; what has alarmed them already does not do so again."""
    if after.task.lacks_answer:
        return None if before.task.lacks_answer else AlertCause.NO_ANSWER
    if after.task.is_parked_by_operator:
        return None
    if after.task.is_parked:
        is_known = after.task.parked_reasons == before.task.parked_reasons
        return None if is_known else AlertCause.PARKED
    if after.task.process_state is ProcessState.ERROR:
        return None if before.task.process_state is ProcessState.ERROR else AlertCause.ERROR
    closed = after.history[len(before.history) :]
    is_exhausted = any(epoch.ended_by is EpochEnd.EXHAUSTED for epoch in closed)
    return AlertCause.EXHAUSTED if is_exhausted else None


def _noted(before: TaskRecord, after: TaskRecord) -> Iterator[Announcement]:
    """Alert once on all that a change notes of steps: each alert is a row of its transaction."""
    pairs = zip(before.steps, after.steps, strict=True)
    noted = {new.name: new.noted for old, new in pairs if new.noted is not None and new.noted != old.noted}
    if noted:
        names, notes = bounded(", ".join(noted), MAX_ERROR_BYTES), dict.fromkeys(noted.values())
        alert = _alert(AlertCause.NOTED, after, after.task.epoch)
        step = next(iter(noted)) if len(noted) == 1 else None
        yield replace(alert, step=step, reason=f"{names}: {'; '.join(notes)}")


def _notice(kind: AnnouncementKind, record: TaskRecord) -> list[Announcement]:
    return [] if record.order.reply_to is None else [_announcement(kind, record, record.task.epoch)]


def _alert(cause: AlertCause, record: TaskRecord, epoch: Epoch) -> Announcement:
    return replace(_announcement(AnnouncementKind.ALERT, record, epoch), cause=cause)


def _announcement(kind: AnnouncementKind, record: TaskRecord, epoch: Epoch) -> Announcement:
    task, is_alert = record.task, kind is AnnouncementKind.ALERT
    return Announcement(
        kind=kind,
        task=record.order.task,
        epoch=epoch,
        at=task.updated_at,
        workflow=record.order.workflow,
        state=task.process_state,
        reply_to=record.order.reply_to,
        correlation_id=record.order.correlation_id,
        reason=task.last_error if is_alert else plain_reason(task.last_error),
        answer=None if is_alert or task.answer is None else json.loads(task.answer),
    )
