"""Table entities of a task's rows, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from functions.pattern.announcements import Announcement
from functions.pattern.identity import Epoch, SchedulerId, StepName, TaskId
from functions.pattern.records import (
    EpochRecord,
    LostMessage,
    Order,
    SentAnnouncement,
    StepRecord,
    Task,
    TaskRecord,
)
from functions.pattern.states import AnnouncementKind, Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.store.keys import (
    epoch_row,
    index_row,
    lost_row,
    order_row,
    outbox_row,
    sent_row,
    step_row,
    task_row,
)

#: What the SDK takes and gives: property names and their values.
Entity = dict[str, Any]

#: Property by which a writer knows its own write again when the answer to it was lost.
WRITE_ID = "WriteId"

_STEPS = TypeAdapter(tuple[StepRecord, ...])
_ANNOUNCEMENT = TypeAdapter(Announcement)


def order_entity(order: Order) -> Entity:
    """Make the row of the orders database."""
    return _entity(
        RowKey=order_row(order.task),
        SchemaVersion=1,
        Workflow=order.workflow,
        WorkflowVersion=order.workflow_version,
        Payload=order.payload,
        Digest=order.digest,
        Submitter=order.submitter,
        SubmittedAt=order.submitted_at,
        OnFailure=str(order.on_failure),
        OnExhausted=str(order.on_exhausted),
        ReplyTo=order.reply_to,
        CorrelationID=order.correlation_id,
        TraceParent=order.traceparent,
    )


def task_entity(task: Task, write_id: str) -> Entity:
    """Make the row of the task, with the column names that the pattern gives them."""
    return _entity(
        RowKey=task_row(task.order_id),
        SchemaVersion=1,
        OrderID=task.order_id,
        LockedBy=task.locked_by,
        CompleteBy=task.complete_by,
        ProcessState=str(task.process_state),
        FailureCount=task.failure_count,
        Epoch=task.epoch,
        Direction=str(task.direction),
        DueAt=task.due_at,
        UpdatedAt=task.updated_at,
        NotBefore=task.not_before,
        FinishedAt=task.finished_at,
        LastError=task.last_error,
        **{WRITE_ID: write_id},
    )


def step_entity(task: TaskId, number: int, step: StepRecord) -> Entity:
    """Make the row of one step."""
    return _entity(
        RowKey=step_row(task, number),
        SchemaVersion=1,
        Name=step.name,
        Undo=step.undo,
        Idempotent=step.idempotent,
        State=str(step.state),
        CompleteBy=step.complete_by,
        StartedAt=step.started_at,
        FinishedAt=step.finished_at,
        Epoch=step.epoch,
        Result=step.result,
        Error=step.error,
        Token=step.token,
    )


def index_entity(record: TaskRecord) -> Entity:
    """Make the index row that the task's state asks for."""
    return _entity(
        RowKey=index_row(record.task),
        OrderID=record.task.order_id,
        Workflow=record.order.workflow,
        ProcessState=str(record.task.process_state),
        SubmittedAt=record.order.submitted_at,
    )


def epoch_entity(task: TaskId, closed: EpochRecord) -> Entity:
    """Make the row of an epoch that is over; its steps are JSON, for they are only ever shown."""
    return _entity(
        RowKey=epoch_row(task, closed.epoch),
        SchemaVersion=1,
        Epoch=closed.epoch,
        EndedBy=str(closed.ended_by),
        EndedAt=closed.ended_at,
        Who=closed.who,
        Reason=closed.reason,
        ProcessState=str(closed.process_state),
        Direction=str(closed.direction),
        LockedBy=closed.locked_by,
        Steps=_STEPS.dump_json(closed.steps, exclude_none=True),
        LastError=closed.last_error,
        TraceParent=closed.traceparent,
    )


def lost_entity(task: TaskId, lost: LostMessage) -> Entity:
    """Make the row of a message about the task that died."""
    return _entity(
        RowKey=lost_row(task, lost),
        SchemaVersion=1,
        Queue=lost.queue,
        MessageId=lost.message_id,
        Reason=lost.reason,
        LostAt=lost.at,
    )


def outbox_entity(announcement: Announcement) -> Entity:
    """Make the row of an announcement that is to be sent."""
    return _entity(
        RowKey=outbox_row(announcement),
        OrderID=announcement.task,
        Announcement=_ANNOUNCEMENT.dump_json(announcement).decode(),
    )


def sent_entity(announcement: Announcement, at: datetime) -> Entity:
    """Make the mark that an announcement was sent. It names no task in a column: it is no task's own row."""
    return _entity(
        RowKey=sent_row(announcement),
        SchemaVersion=1,
        Kind=str(announcement.kind),
        Epoch=announcement.epoch,
        SentAt=at,
    )


def announcement_of(entity: Mapping[str, Any]) -> Announcement:
    """Read an announcement from its row."""
    return _ANNOUNCEMENT.validate_json(entity["Announcement"])


def record_of(entities: Iterable[Mapping[str, Any]]) -> TaskRecord:
    """Read one task's record from its rows, which come sorted by row key."""
    order: Order | None = None
    task: Task | None = None
    steps: list[StepRecord] = []
    history: list[EpochRecord] = []
    lost: list[LostMessage] = []
    sent: list[SentAnnouncement] = []
    for entity in entities:
        match entity["RowKey"].split("|")[1:]:
            case ["order"]:
                order = _order(entity)
            case ["task"]:
                task = task_of(entity)
            case ["step", _]:
                steps.append(_step(entity))
            case ["epoch", _]:
                history.append(_epoch(entity))
            case ["lost", _, _]:
                lost.append(_lost(entity))
            case ["sent", _, _]:
                sent.append(_sent(entity))
            case _:
                continue  # written by a later version, for itself
    if order is None or task is None:
        raise ValueError("the rows of a task lack its order or its state")
    return TaskRecord(
        order=order,
        task=task,
        steps=tuple(steps),
        history=tuple(history),
        lost=tuple(lost),
        sent=tuple(sent),
    )


def _order(entity: Mapping[str, Any]) -> Order:
    return Order(
        task=TaskId(entity["RowKey"].split("|")[0]),
        workflow=entity["Workflow"],
        workflow_version=entity["WorkflowVersion"],
        payload=entity["Payload"],
        digest=entity["Digest"],
        submitter=entity["Submitter"],
        submitted_at=entity["SubmittedAt"],
        on_failure=Remedy(entity["OnFailure"]),
        on_exhausted=Remedy(entity["OnExhausted"]),
        reply_to=entity.get("ReplyTo"),
        correlation_id=entity.get("CorrelationID"),
        traceparent=entity.get("TraceParent"),
    )


def task_of(entity: Mapping[str, Any]) -> Task:
    """Read a task's state from its row."""
    locked_by = entity.get("LockedBy")
    return Task(
        order_id=TaskId(entity["OrderID"]),
        locked_by=None if locked_by is None else SchedulerId(locked_by),
        complete_by=entity.get("CompleteBy"),
        process_state=ProcessState(entity["ProcessState"]),
        failure_count=entity["FailureCount"],
        epoch=Epoch(entity["Epoch"]),
        direction=Direction(entity["Direction"]),
        due_at=entity["DueAt"],
        updated_at=entity["UpdatedAt"],
        not_before=entity.get("NotBefore"),
        finished_at=entity.get("FinishedAt"),
        last_error=entity.get("LastError"),
    )


def _step(entity: Mapping[str, Any]) -> StepRecord:
    epoch = entity.get("Epoch")
    return StepRecord(
        name=StepName(entity["Name"]),
        undo=entity["Undo"],
        idempotent=entity["Idempotent"],
        state=StepState(entity["State"]),
        complete_by=entity.get("CompleteBy"),
        started_at=entity.get("StartedAt"),
        finished_at=entity.get("FinishedAt"),
        epoch=None if epoch is None else Epoch(epoch),
        result=entity.get("Result"),
        error=entity.get("Error"),
        token=entity.get("Token"),
    )


def _epoch(entity: Mapping[str, Any]) -> EpochRecord:
    locked_by = entity.get("LockedBy")
    return EpochRecord(
        epoch=Epoch(entity["Epoch"]),
        ended_by=EpochEnd(entity["EndedBy"]),
        ended_at=entity["EndedAt"],
        who=entity["Who"],
        reason=entity["Reason"],
        process_state=ProcessState(entity["ProcessState"]),
        direction=Direction(entity["Direction"]),
        locked_by=None if locked_by is None else SchedulerId(locked_by),
        steps=_STEPS.validate_json(entity["Steps"]),
        last_error=entity.get("LastError"),
        traceparent=entity.get("TraceParent"),
    )


def _lost(entity: Mapping[str, Any]) -> LostMessage:
    return LostMessage(
        queue=entity["Queue"],
        message_id=entity["MessageId"],
        reason=entity["Reason"],
        at=entity["LostAt"],
    )


def _sent(entity: Mapping[str, Any]) -> SentAnnouncement:
    return SentAnnouncement(
        kind=AnnouncementKind(entity["Kind"]), epoch=Epoch(entity["Epoch"]), sent_at=entity["SentAt"]
    )


def _entity(**properties: Any) -> Entity:
    """Leave out what is null: a row is always replaced whole, so what is absent is null."""
    return {name: value for name, value in properties.items() if value is not None}
