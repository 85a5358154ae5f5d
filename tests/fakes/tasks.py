"""A task in progress: events as Schedulers and Agents create them, and records after some of them."""

from __future__ import annotations

from datetime import datetime, timedelta

from functions.pattern.definition import Workflow
from functions.pattern.events import (
    Claimed,
    Event,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
    StepUnrecorded,
)
from functions.pattern.identity import Epoch, StartId, StepName, TaskId, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.transitions import admit, apply
from tests.fakes.clock import START
from tests.fakes.workflows import DIAMOND, TASK, order

FIRST = Epoch(1)
SECOND = Epoch(2)


def after(seconds: float) -> datetime:
    """Return the time `seconds` after the start."""
    return START + timedelta(seconds=seconds)


def pending(workflow: Workflow = DIAMOND, task: TaskId = TASK, weight: int = 3) -> TaskRecord:
    """Create a task that waits for its Scheduler for at most 30 seconds."""
    return admit(order(workflow, task, weight), pick_up_by=after(30))


def claimed(epoch: Epoch = FIRST, *, task: TaskId = TASK, start_by: float = 30) -> Claimed:
    """Create the event with which the Scheduler of `epoch` claims the task."""
    return Claimed(epoch=epoch, scheduler=scheduler_id(task, epoch), start_by=after(start_by))


def started(
    step: str,
    epoch: Epoch = FIRST,
    *,
    task: TaskId = TASK,
    complete_by: float = 20,
    token: str | None = None,
    activity: int = 1,
    start_id: str | None = None,
) -> StepStarted:
    """Create the event of a step's start, the same again unless it gets a start id of its own."""
    return StepStarted(
        epoch=epoch,
        scheduler=scheduler_id(task, epoch),
        step=StepName(step),
        complete_by=after(complete_by),
        activity=activity,
        start_id=StartId(start_id or f"{step}.{epoch}.{activity}"),
        token=token,
    )


def skipped(step: str, epoch: Epoch = FIRST) -> StepSkipped:
    """Create the event of a step that the order does not need."""
    return StepSkipped(
        epoch=epoch, scheduler=scheduler_id(TASK, epoch), step=StepName(step), start_by=after(30)
    )


def completed(
    step: str,
    epoch: Epoch = FIRST,
    *,
    task: TaskId = TASK,
    result: bytes = b"{}",
    start_by: float = 30,
    token: str | None = None,
) -> StepCompleted:
    """Create the event of a completed step."""
    return StepCompleted(
        epoch=epoch,
        scheduler=scheduler_id(task, epoch),
        step=StepName(step),
        result=result,
        start_by=after(start_by),
        token=token,
    )


def failed(
    step: str,
    epoch: Epoch = FIRST,
    *,
    task: TaskId = TASK,
    error: str = "no money",
    token: str | None = None,
) -> StepFailed:
    """Create the event of a step that a service refused permanently."""
    return StepFailed(
        epoch=epoch,
        scheduler=scheduler_id(task, epoch),
        step=StepName(step),
        error=error,
        start_by=after(30),
        token=token,
    )


def unrecorded(step: str, epoch: Epoch = FIRST) -> StepUnrecorded:
    """Create the event of a step that was done, and whose result can't be recorded."""
    return StepUnrecorded(
        epoch=epoch,
        scheduler=scheduler_id(TASK, epoch),
        step=StepName(step),
        error="too large",
        start_by=after(30),
    )


def told(record: TaskRecord, *events: Event, now: datetime = START) -> TaskRecord:
    """Apply events, none of which may be refused."""
    for event in events:
        outcome = apply(record, event, now)
        assert not isinstance(outcome, Refused), f"{event} was refused: {outcome.reason}"
        record = outcome
    return record
