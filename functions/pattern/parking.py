"""How a task is parked, by a deployment or by an operator, which costs it nothing, and how it goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import assert_never

from functions.pattern.decisions import due_by, in_question, known_end
from functions.pattern.epochs import FINAL, awaited, is_busy, next_epoch
from functions.pattern.events import Parked, Released
from functions.pattern.operator_events import ParkRequested, Unparked
from functions.pattern.records import BY_OPERATOR, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import EpochEnd, ProcessState, Way
from functions.pattern.texts import MAX_ERROR_BYTES, bounded, mark_of
from functions.pattern.waits import awaited_anew, over

#: How long a task rests that was released in vain, after the first time and at most.
_FIRST_REST = timedelta(seconds=10)
_LONGEST_REST = timedelta(minutes=5)
_MOST_DOUBLINGS = 5
#: Reasons of which is known that operators were alerted: hosts that run side by side may lack this and that.
_MOST_REASONS = 10


def parked(record: TaskRecord, event: Parked, now: datetime) -> TaskRecord | Refused:
    """Take a task from its Scheduler until what it waits for is deployed; its epoch stays open.

    A step that is overdue does not keep it, unless it must not be repeated: then its outcome is in question.
    Of one that is parked, the Supervisor can change the reason, unless an operator parked it.
    """
    if record.task.is_parked_by_operator:
        return record
    if record.task.is_parked:
        reworded = as_parked(record, event.reason, now, event.lasting)
        is_known = event.scheduler is not None or reworded.task.last_error == record.task.last_error
        return record if is_known else reworded
    refusal = _not_parked(record, event, now)
    return Refused(refusal) if refusal else as_parked(record, event.reason, now, event.lasting)


def _not_parked(record: TaskRecord, event: Parked, now: datetime) -> RefusalReason | None:
    """Say why a task goes on; an event that could not be told here may have been told elsewhere meanwhile."""
    if record.task.locked_by != event.scheduler:
        return RefusalReason.NOT_HOLDER
    if record.task.decision is not None:
        return RefusalReason.DECIDED
    if is_busy(record) and (now < due_by(record, now) or in_question(record) is not None):
        return RefusalReason.BUSY
    is_told = event.untold is not None and event.untold not in over(record, now)
    return RefusalReason.NOT_OVERDUE if is_told else None


def as_parked(record: TaskRecord, reason: str, now: datetime, lasting: str | None = None) -> TaskRecord:
    """Have a task wait, held by nobody, for the version of its workflow; its reason is known by `lasting`."""
    order, error = record.order, bounded(reason, MAX_ERROR_BYTES)
    known, mark = record.task.parked_reasons, mark_of(bounded(lasting or reason, MAX_ERROR_BYTES))
    task = replace(
        record.task,
        process_state=ProcessState.PENDING,
        locked_by=None,
        complete_by=None,
        not_before=None,
        finished_at=None,
        parked_for=f"{order.workflow}|{order.workflow_version}",
        parked_reasons=known if mark in known else (*known, mark)[-_MOST_REASONS:],
        last_error=error,
        updated_at=now,
    )
    return replace(record, task=task)


def released(record: TaskRecord, event: Released, now: datetime) -> TaskRecord | Refused:
    """Open the next epoch of a parked task, as no recovery; one that lacks only its answer ends in it."""
    if not record.task.is_parked or record.task.is_parked_by_operator:
        return Refused(RefusalReason.NOT_PARKED)
    opened = next_epoch(
        record,
        now,
        ended_by=EpochEnd.RELEASED,
        who="supervisor",
        reason="what it waited for is deployed",
        start_by=event.start_by,
        traceparent=event.traceparent,
        failure_count=record.task.failure_count,
    )
    opened = _events_awaited_anew(opened, now, event.start_by)
    return known_end(opened, now, event.start_by) or opened


def _events_awaited_anew(record: TaskRecord, now: datetime, start_by: datetime) -> TaskRecord:
    """Have events be awaited for as long again as nobody could tell them."""
    for step in awaited(record):
        if step.shape.via is Way.EVENT:
            record = record.with_step(awaited_anew(step, now, start_by))
    return record


def set_aside(record: TaskRecord, event: ParkRequested | Unparked, now: datetime) -> TaskRecord | Refused:
    """Park a task for an operator, or have one go on that an operator has parked."""
    match event:
        case ParkRequested():
            return _parked_by_operator(record, event, now)
        case Unparked():
            return _unparked(record, event, now)
        case _:
            assert_never(event)


def _parked_by_operator(record: TaskRecord, event: ParkRequested, now: datetime) -> TaskRecord | Refused:
    """Take a task from its Scheduler, in the next epoch, until an operator unparks it.

    Not while a step that must not be repeated is running: its outcome has to find its epoch.
    """
    task = record.task
    if task.process_state in FINAL:
        return Refused(RefusalReason.NOT_UNDER_WAY)
    if task.is_parked_by_operator:
        return Refused(RefusalReason.PARKED_BY_OPERATOR)
    if task.decision is not None or any(step.never_twice for step in record.steps):
        return Refused(RefusalReason.OUTCOME_AWAITED)
    opened = _opened(record, event, now, EpochEnd.PARKED)
    if task.is_parked:  # for a deployment: nobody releases it any more
        opened = _events_awaited_anew(opened, now, event.start_by)
    return replace(opened, task=replace(opened.task, complete_by=None, parked_for=BY_OPERATOR))


def _unparked(record: TaskRecord, event: Unparked, now: datetime) -> TaskRecord | Refused:
    """Open the next epoch of a task that an operator has parked; one that came to its end meanwhile ends."""
    if not record.task.is_parked_by_operator:
        return Refused(RefusalReason.NOT_PARKED)
    opened = _opened(record, event, now, EpochEnd.UNPARKED)
    return known_end(opened, now, event.start_by) or opened


def _opened(
    record: TaskRecord, event: ParkRequested | Unparked, now: datetime, ended_by: EpochEnd
) -> TaskRecord:
    """Open the next epoch, as no recovery."""
    return next_epoch(
        record,
        now,
        ended_by=ended_by,
        who=event.who,
        reason=event.reason,
        start_by=event.start_by,
        traceparent=event.traceparent,
        failure_count=record.task.failure_count,
    )


def rests_until(record: TaskRecord) -> datetime | None:
    """Tell until when a parked task rests that was released in vain, longer each time; None if it was not.

    While hosts that lack its version run beside others that have it, it would open an epoch in every sweep.
    """
    vain = list(takewhile(lambda closed: closed.ended_by is EpochEnd.RELEASED, reversed(record.history)))
    if not vain:
        return None
    return vain[0].ended_at + min(_LONGEST_REST, _FIRST_REST * (1 << min(len(vain) - 1, _MOST_DOUBLINGS)))
