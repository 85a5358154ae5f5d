"""The rules of steps without an Agent: events from outside and tasks of other workflows. Times are UTC."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from functions.core.conclusions import add_note
from functions.core.record import Direction, OperationState, StepType, TaskRecord
from functions.core.task_events import ChildEnded, EventReceived, Rejection

_DONE_AFTER_REFUSAL = "recorded as refused, but its task was processed"


def receive_event(record: TaskRecord, event: EventReceived, now: datetime) -> TaskRecord | Rejection:
    """Record the event of a step, also before the step starts. A repeated event changes nothing."""
    spec = record.order.by_name.get(event.step)
    if spec is None or spec.type is not StepType.EVENT:
        return Rejection.NOT_OPEN
    step = record.step(event.step)
    if step.event is not None:
        return record if step.event == event.body else Rejection.NOT_OPEN
    is_finished = record.finished_at is not None and record.error is None
    if record.direction is Direction.UNDO or is_finished or record.decision is not None:
        return Rejection.FINISHED
    if step.do.state not in {OperationState.NOT_STARTED, OperationState.RUNNING}:
        return Rejection.NOT_OPEN
    if record.suspension is not None and not record.suspension.by_operator:
        return Rejection.NOT_DEPLOYED
    received = replace(step, event=event.body, event_by=event.who)
    if step.do.state is OperationState.RUNNING:
        received = replace(received, do=step.do.ended(OperationState.DONE, now, result=event.body))
    return record.with_step(received)


def end_child(record: TaskRecord, event: ChildEnded, now: datetime) -> TaskRecord | Rejection:
    """Record the end of the task of a workflow step, or the end of its undo."""
    spec = record.order.by_name.get(event.step)
    if record.order.run_id != event.run_id or spec is None or spec.type is not StepType.WORKFLOW:
        return Rejection.NOT_OPEN
    step = record.step(event.step)
    if not event.is_done and step.undo.state is OperationState.RUNNING:
        undone = step.undo.ended(OperationState.DONE, now)
        return record.with_operation(event.step, undone, Direction.UNDO)
    if step.do.state is OperationState.RUNNING:
        state = OperationState.DONE if event.is_done else OperationState.REFUSED
        if event.is_done and event.result is None:
            state = OperationState.DONE_WITHOUT_RESULT
        ended = step.do.ended(state, now, result=event.result, error=event.error)
        return record.with_operation(event.step, ended, Direction.DO)
    is_news = event.is_done and step.do.state is OperationState.REFUSED and record.direction is Direction.DO
    return add_note(record, event.step, _DONE_AFTER_REFUSAL, now) if is_news else record
