"""How Supervisor and operators take a task from one epoch to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from functions.pattern.bookkeeping import finished, next_epoch, turned_back
from functions.pattern.events import (
    GivenUp,
    OperatorEvent,
    Postponed,
    Reason,
    Recovered,
    Refused,
    Resubmitted,
    SupervisorEvent,
    UndoRequested,
)
from functions.pattern.records import TaskRecord
from functions.pattern.states import EpochEnd, ProcessState, Remedy, StepState

_SUPERVISOR = "supervisor"
_OVERDUE = "its complete-by time passed"


def supervised(record: TaskRecord, event: SupervisorEvent, now: datetime) -> TaskRecord | Refused:
    """Apply what the Supervisor decided about a task that is not finished.

    The task may have gone on since it was judged: then it is not taken from its Scheduler, and its due
    time stays early enough for what runs now.
    """
    complete_by = record.task.complete_by or record.task.due_at
    match event:
        case Postponed():
            due_at = min(event.due_at, complete_by)
            if due_at == record.task.due_at:
                return record
            return replace(record, task=replace(record.task, due_at=due_at, updated_at=now))
        case Recovered() | GivenUp() if now < complete_by:
            return Refused(Reason.NOT_OVERDUE)
        case Recovered():
            return next_epoch(
                record,
                now,
                event.start_by,
                ended_by=EpochEnd.RECOVERED,
                who=_SUPERVISOR,
                reason=_OVERDUE,
                failure_count=record.task.failure_count + 1,
                not_before=event.not_before,
                traceparent=event.traceparent,
            )
        case GivenUp():
            return _given_up(record, event, now)
        case _:
            assert_never(event)


def _given_up(record: TaskRecord, event: GivenUp, now: datetime) -> TaskRecord:
    if event.hold or record.order.on_exhausted is Remedy.HOLD:
        return finished(record, ProcessState.ERROR, now, error=event.reason)
    opened = next_epoch(
        record,
        now,
        event.start_by,
        ended_by=EpochEnd.EXHAUSTED,
        who=_SUPERVISOR,
        reason=event.reason,
        failure_count=0,
        traceparent=event.traceparent,
    )
    return turned_back(opened, now)


def operated(record: TaskRecord, event: OperatorEvent, now: datetime) -> TaskRecord | Refused:
    """Apply what an operator decided; only a task in `Error` waits for one."""
    if record.task.process_state is not ProcessState.ERROR:
        return Refused(Reason.NOT_IN_ERROR)
    match event:
        case Resubmitted():
            return _cleared(_opened(record, event, EpochEnd.RESUBMITTED, now))
        case UndoRequested():
            return turned_back(_opened(record, event, EpochEnd.UNDO_REQUESTED, now), now)
        case _:
            assert_never(event)


def _opened(record: TaskRecord, event: OperatorEvent, ended_by: EpochEnd, now: datetime) -> TaskRecord:
    return next_epoch(
        record,
        now,
        event.start_by,
        ended_by=ended_by,
        who=event.who,
        reason=event.reason,
        failure_count=0,
        traceparent=event.traceparent,
    )


def _cleared(record: TaskRecord) -> TaskRecord:
    """Let run again what did not succeed; what must not run twice does so on the operator's word only."""
    steps = tuple(
        replace(step, state=StepState.NOT_STARTED, error=None)
        if step.state is StepState.FAILED or step.never_twice
        else step
        for step in record.steps
    )
    return replace(record, steps=steps)
