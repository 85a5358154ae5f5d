"""Every way a task's record can change: (record, event, now) -> record or refusal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from functions.pattern.definition import Workflow
from functions.pattern.errors import IllegalTransitionError
from functions.pattern.identity import FIRST_EPOCH, Epoch, SchedulerId, StepName
from functions.pattern.records import Order, StepRecord, Task, TaskRecord
from functions.pattern.states import Direction, ProcessState, StepState


class Reason(StrEnum):
    """Why an event counts for nothing."""

    #: It comes from an older epoch: the task was recovered since.
    STALE_EPOCH = "stale epoch"
    #: Another Scheduler holds the task.
    NOT_HOLDER = "not the holder"
    #: The task is in a state that nothing but an operator leaves.
    FINISHED = "finished"
    #: It came after the step's complete-by time.
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Refused:
    """The event must not change the record; nothing is written."""

    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A Scheduler takes the task; `start_by` is when it must have started a step."""

    epoch: Epoch
    scheduler: SchedulerId
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """An Agent is about to call its remote service."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    complete_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted:
    """The remote service did its part; `start_by` is when the next step must have started."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    result: bytes
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """The remote service refused for good (a nontransient fault)."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    error: str


StepEvent = StepStarted | StepCompleted | StepFailed
Event = Claimed | StepEvent

_FINAL = frozenset({ProcessState.PROCESSED, ProcessState.ERROR, ProcessState.COMPENSATED})


def admit(order: Order, workflow: Workflow, *, pick_up_by: datetime) -> TaskRecord:
    """Make the record of a new task: `Pending`, and due when no Scheduler picks it up in time."""
    task = Task(
        order_id=order.task,
        locked_by=None,
        complete_by=None,
        process_state=ProcessState.PENDING,
        failure_count=0,
        epoch=FIRST_EPOCH,
        direction=Direction.DO,
        due_at=pick_up_by,
        updated_at=order.submitted_at,
    )
    steps = tuple(StepRecord(name=step.name) for step in workflow.steps)
    return TaskRecord(order=order, task=task, steps=steps)


def apply(record: TaskRecord, event: Event, now: datetime) -> TaskRecord | Refused:
    """Give the record after `event`, the same record when it holds already, or why it is refused.

    Raises `IllegalTransitionError` where no rule of the pattern leads.
    """
    if event.epoch > record.task.epoch:
        raise _illegal(record, event)
    if event.epoch < record.task.epoch:
        return Refused(Reason.STALE_EPOCH)
    if isinstance(event, Claimed):
        return _claim(record, event, now)
    if record.task.process_state in _FINAL:
        return _after_the_end(record, event)
    if record.task.locked_by != event.scheduler:
        return Refused(Reason.NOT_HOLDER)
    return _step(record, event, now)


def _step(record: TaskRecord, event: StepEvent, now: datetime) -> TaskRecord | Refused:
    match event:
        case StepStarted():
            return _start(record, event, now)
        case StepCompleted():
            return _complete(record, event, now)
        case StepFailed():
            return _fail(record, event, now)
        case _:
            assert_never(event)


def _claim(record: TaskRecord, event: Claimed, now: datetime) -> TaskRecord | Refused:
    task = record.task
    if task.process_state in _FINAL:
        return Refused(Reason.FINISHED)
    if task.process_state is ProcessState.PROCESSING:
        return record if task.locked_by == event.scheduler else Refused(Reason.NOT_HOLDER)
    claimed = replace(task, process_state=ProcessState.PROCESSING, locked_by=event.scheduler)
    return _moved(replace(record, task=claimed), now, event.start_by)


def _after_the_end(record: TaskRecord, event: StepEvent) -> TaskRecord | Refused:
    """Accept the last outcome told again (its answer was lost), and nothing else."""
    told_again = isinstance(event, StepCompleted) and record.step(event.step).state is StepState.COMPLETED
    return record if told_again else Refused(Reason.FINISHED)


def _start(record: TaskRecord, event: StepStarted, now: datetime) -> TaskRecord:
    step = record.step(event.step)
    if step.state is StepState.COMPLETED or (step.state is StepState.RUNNING and step.epoch == event.epoch):
        return record  # the activity runs a second time: the first complete-by time stands
    started = replace(
        step, state=StepState.RUNNING, started_at=now, complete_by=event.complete_by, epoch=event.epoch
    )
    return _moved(record.with_step(started), now, event.complete_by)


def _complete(record: TaskRecord, event: StepCompleted, now: datetime) -> TaskRecord | Refused:
    step = record.step(event.step)
    if step.state is StepState.COMPLETED:
        return record
    if _is_late(record, step, event, now):
        return Refused(Reason.LATE)
    completed = record.with_step(
        replace(step, state=StepState.COMPLETED, finished_at=now, result=event.result, error=None)
    )
    if all(each.state is StepState.COMPLETED for each in completed.steps):
        return _finished(completed, ProcessState.PROCESSED, now, error=None)
    return _moved(completed, now, event.start_by)


def _fail(record: TaskRecord, event: StepFailed, now: datetime) -> TaskRecord | Refused:
    step = record.step(event.step)
    if _is_late(record, step, event, now):
        return Refused(Reason.LATE)
    failed = record.with_step(replace(step, state=StepState.FAILED, finished_at=now, error=event.error))
    return _finished(failed, ProcessState.ERROR, now, error=f"{event.step}: {event.error}")


def _is_late(record: TaskRecord, step: StepRecord, event: StepCompleted | StepFailed, now: datetime) -> bool:
    if step.state is not StepState.RUNNING or step.epoch != event.epoch or step.complete_by is None:
        raise _illegal(record, event)
    return now > step.complete_by


def _finished(record: TaskRecord, state: ProcessState, now: datetime, *, error: str | None) -> TaskRecord:
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


def _moved(record: TaskRecord, now: datetime, latest: datetime) -> TaskRecord:
    """Set the task's complete-by to the earliest of its running steps, or to `latest`.

    The due time follows only when it would be too late: a task that runs quickly never moves it.
    """
    running = [step.complete_by for step in record.steps if step.state is StepState.RUNNING]
    complete_by = min((time for time in running if time is not None), default=latest)
    due_at = min(record.task.due_at, complete_by)
    task = replace(record.task, complete_by=complete_by, due_at=due_at, updated_at=now)
    return replace(record, task=task)


def _illegal(record: TaskRecord, event: Event) -> IllegalTransitionError:
    task = record.task
    return IllegalTransitionError(
        f"task {task.order_id} ({task.process_state}, epoch {task.epoch}) can't take {event!r}"
    )
