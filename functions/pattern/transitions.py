"""Every way a task's record can change: (record, event, now) -> record or refusal."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from functions.pattern.children import child_ended
from functions.pattern.decisions import known_end
from functions.pattern.epochs import FINAL, announcement_sent, message_lost, moved
from functions.pattern.events import (
    AnnouncementSent,
    Cancelled,
    Claimed,
    DecisionDue,
    Event,
    Extended,
    FoundDone,
    FoundNotDone,
    GivenUp,
    MessageLost,
    OperatorEvent,
    Parked,
    ParkingEvent,
    Postponed,
    Recovered,
    Released,
    Resubmitted,
    Resumed,
    SchedulerEvent,
    StepBroken,
    StepCompleted,
    StepEvent,
    StepFailed,
    StepNotTaken,
    StepReply,
    StepSkipped,
    StepStarted,
    StepTried,
    StepUnknown,
    StepUnrecorded,
    SupervisorEvent,
    UndoRequested,
)
from functions.pattern.identity import FIRST_EPOCH, scheduler_id
from functions.pattern.interventions import cancelled, operated, supervised
from functions.pattern.late import late_outcome
from functions.pattern.operator_events import ParkRequested, ResultGiven, Unparked
from functions.pattern.parking import parked, released, set_aside
from functions.pattern.records import Order, Task, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, ProcessState, StepState
from functions.pattern.step_records import StepRecord
from functions.pattern.steps import DONE, illegal, is_forged, step_changed
from functions.pattern.wait_events import (
    ChildEnded,
    EventReceived,
    HandedBack,
    PutOff,
    TurnedAway,
    WaitsEnded,
)
from functions.pattern.waits import event_told, let_go, waits_ended


def admit(order: Order, *, pick_up_by: datetime) -> TaskRecord:
    """Make the record of a new task: `Pending`, and due at the latest time for a Scheduler to claim it."""
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
    return TaskRecord(order=order, task=task, steps=tuple(StepRecord(shape=step) for step in order.steps))


def apply(record: TaskRecord, event: Event, now: datetime) -> TaskRecord | Refused:
    """Give the record after `event` (the same when it holds) or a refusal; raise `IllegalTransitionError`."""
    match event:
        case Cancelled():
            return cancelled(record, event, now)
        case EventReceived() | TurnedAway():
            return event_told(record, event, now)
        case ChildEnded():
            return child_ended(record, event, now)
        case MessageLost():
            return message_lost(record, event, now)
        case AnnouncementSent():
            return announcement_sent(record, event)
        case _:
            return _of_epoch(record, event, now)


def _of_epoch(
    record: TaskRecord, event: SchedulerEvent | SupervisorEvent | OperatorEvent | ParkingEvent, now: datetime
) -> TaskRecord | Refused:
    after = _in_epoch(record, event, now)
    if isinstance(after, Refused) and isinstance(event, StepReply):
        return late_outcome(record, event, now) or after
    return after


def _in_epoch(
    record: TaskRecord, event: SchedulerEvent | SupervisorEvent | OperatorEvent | ParkingEvent, now: datetime
) -> TaskRecord | Refused:
    if event.epoch > record.task.epoch:
        raise illegal(record, event)
    if event.epoch < record.task.epoch:
        return Refused(RefusalReason.STALE_EPOCH)
    match event:
        case Claimed():
            return _claim(record, event, now)
        case (
            StepStarted()
            | StepSkipped()
            | StepCompleted()
            | StepFailed()
            | StepUnrecorded()
            | StepNotTaken()
            | StepUnknown()
            | StepBroken()
            | StepTried()
        ):
            return _step(record, event, now)
        case (
            Parked()
            | HandedBack()
            | PutOff()
            | WaitsEnded()
            | Postponed()
            | Recovered()
            | Extended()
            | Resumed()
            | GivenUp()
            | DecisionDue()
            | Released()
        ):
            is_final = record.task.process_state in FINAL
            return Refused(RefusalReason.FINISHED) if is_final else _unfinished(record, event, now)
        case Resubmitted() | UndoRequested() | FoundDone() | FoundNotDone() | ResultGiven():
            return operated(record, event, now)
        case ParkRequested() | Unparked():
            return set_aside(record, event, now)
        case _:
            assert_never(event)


def _unfinished(
    record: TaskRecord, event: Parked | HandedBack | PutOff | SupervisorEvent, now: datetime
) -> TaskRecord | Refused:
    match event:
        case Parked():
            return parked(record, event, now)
        case Released():
            return released(record, event, now)
        case _ if record.task.is_parked:
            return Refused(RefusalReason.PARKED)
        case HandedBack() | PutOff():
            return let_go(record, event, now)
        case WaitsEnded():
            return waits_ended(record, event, now)
        case _:
            return supervised(record, event, now)


def _claim(record: TaskRecord, event: Claimed, now: datetime) -> TaskRecord | Refused:
    task = record.task
    if task.process_state in FINAL:
        return Refused(RefusalReason.FINISHED)
    if task.is_parked:
        return Refused(RefusalReason.PARKED)
    if task.is_handed_back:
        return Refused(RefusalReason.WAITING)
    if event.scheduler != scheduler_id(task.order_id, task.epoch, task.run):
        return Refused(RefusalReason.NOT_HOLDER)
    if task.process_state is ProcessState.PROCESSING:
        return record if task.locked_by == event.scheduler else Refused(RefusalReason.NOT_HOLDER)
    claimed = replace(task, process_state=ProcessState.PROCESSING, locked_by=event.scheduler)
    held = moved(replace(record, task=claimed), now, event.start_by)
    return known_end(held, now, event.start_by) or held


def _step(record: TaskRecord, event: StepEvent, now: datetime) -> TaskRecord | Refused:
    if record.task.process_state in FINAL:
        return _after_the_end(record, event)
    is_noted = isinstance(event, StepTried)  # its start is known by its id, also to who knows no run
    is_holder = is_noted or record.task.locked_by == event.scheduler
    return step_changed(record, event, now) if is_holder else Refused(RefusalReason.NOT_HOLDER)


def _after_the_end(record: TaskRecord, event: StepEvent) -> TaskRecord | Refused:
    """Accept a repeat of the last outcome (its answer was lost), and nothing else."""
    step = record.step(event.step)
    match event:
        case StepCompleted() if step.state is DONE[record.task.direction] and not is_forged(step, event):
            return record
        case StepSkipped() if step.state is StepState.SKIPPED:
            return record
        case _:
            return Refused(RefusalReason.FINISHED)
