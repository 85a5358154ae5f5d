"""The status of an order, as its caller sees it. Times are UTC."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from functions.core.derive import ProcessState, StepState, derive, step_state
from functions.core.record import NOT_STARTED, StepSpec, TaskRecord
from functions.messaging.reservations import Reservation
from functions.messaging.task_messages import caller_reason


class StepStatus(BaseModel):
    """The status of one step, or of one `item` of a for-each step, from 0 on."""

    name: str
    item: int | None
    state: StepState
    complete_by: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None


class IntakeState(StrEnum):
    """The state of an order that has no task: not recorded yet, or rejected for the reason `last_error`."""

    ACCEPTED = "Accepted"
    REJECTED = "Rejected"


class Status(BaseModel):
    """The status of an order. `output` is the result of the workflow, once the order is processed."""

    id: str
    workflow: str
    state: ProcessState | IntakeState
    submitted_at: datetime
    finished_at: datetime | None
    correlation_id: str | None
    steps: list[StepStatus]
    last_error: str | None
    output: dict[str, Any] | None


def status_before(task: str, reservation: Reservation) -> Status:
    """Return the status of an order that has no task."""
    is_rejected = reservation.rejected is not None
    return Status(
        id=task,
        workflow=reservation.workflow,
        state=IntakeState.REJECTED if is_rejected else IntakeState.ACCEPTED,
        submitted_at=reservation.submitted_at,
        finished_at=None,
        correlation_id=reservation.correlation_id,
        steps=[],
        last_error=reservation.rejected,
        output=None,
    )


def status_of(record: TaskRecord) -> Status:
    """Return the status of a task for its caller, without internal texts."""
    order, suspension = record.order, record.suspension
    return Status(
        id=order.task,
        workflow=order.workflow,
        state=derive(record).state,
        submitted_at=order.submitted_at,
        finished_at=record.finished_at,
        correlation_id=order.correlation_id,
        steps=[_step_status(record, spec) for spec in order.specs],
        last_error=caller_reason(record.reason if suspension is None else suspension.reason),
        output=None if record.output is None else from_json(record.output),
    )


def _step_status(record: TaskRecord, spec: StepSpec) -> StepStatus:
    """Return the status of a step: of its undo as soon as that has started."""
    operation = record.current(spec.name)
    if operation == NOT_STARTED:
        operation = record.do(spec.name)
    return StepStatus(
        name=spec.name,
        item=spec.item,
        state=step_state(record, spec),
        complete_by=operation.complete_by,
        started_at=operation.started_at,
        finished_at=operation.finished_at,
        error=caller_reason(operation.error),
    )
