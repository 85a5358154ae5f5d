"""How a task is parked, which costs it nothing, and how it goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from functions.pattern.decisions import due_by, in_question
from functions.pattern.epochs import is_busy, next_epoch
from functions.pattern.events import Parked, RefusalReason, Refused, Released
from functions.pattern.records import TaskRecord
from functions.pattern.states import EpochEnd, ProcessState
from functions.pattern.texts import MAX_ERROR_BYTES, bounded


def parked(record: TaskRecord, event: Parked, now: datetime) -> TaskRecord | Refused:
    """Take a task from its Scheduler until what it waits for is deployed; its epoch stays open.

    A step that is overdue does not keep it, unless it must not be repeated: then its outcome is in question.
    """
    if record.task.is_parked:
        return record  # it came before
    if record.task.locked_by != event.scheduler:
        return Refused(RefusalReason.NOT_HOLDER)
    if record.task.decision is not None:
        return Refused(RefusalReason.DECIDED)
    if is_busy(record) and (now < due_by(record, now) or in_question(record) is not None):
        return Refused(RefusalReason.BUSY)
    order = record.order
    task = replace(
        record.task,
        process_state=ProcessState.PENDING,
        locked_by=None,
        complete_by=None,
        not_before=None,
        parked_for=f"{order.workflow}|{order.workflow_version}",
        last_error=bounded(event.reason, MAX_ERROR_BYTES),
        updated_at=now,
    )
    return replace(record, task=task)


def released(record: TaskRecord, event: Released, now: datetime) -> TaskRecord | Refused:
    """Open the next epoch of a parked task, as no recovery: what kept it was not its own."""
    if not record.task.is_parked:
        return Refused(RefusalReason.NOT_PARKED)
    return next_epoch(
        record,
        now,
        ended_by=EpochEnd.RELEASED,
        who="supervisor",
        reason="what it waited for is deployed",
        start_by=event.start_by,
        traceparent=event.traceparent,
        failure_count=record.task.failure_count,
    )
