"""The status of an order, as its caller sees it, and its cancellation. Times are UTC.

The functions raise `StorageError`, and `ProblemError` 404 if a resource has no order that the caller may see.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from functions.core.definition.workflow_definition import Workflow
from functions.core.derive import ProcessState, StepState, derive, step_state
from functions.core.record import NOT_STARTED, OperationState, StepSpec, TaskRecord
from functions.core.task_events import Cancelled, Canceller
from functions.http.access import Caller, Role
from functions.http.problems import ProblemError
from functions.messaging.reservations import IdRecord, find_reservation
from functions.messaging.task_messages import caller_reason
from functions.storage.table_contract import NoSuchTaskError
from functions.storage.task_storage import TaskStorage
from functions.telemetry.spans import decision_span

#: States of an operation that may still succeed: its latest fault is no result.
_OPEN = frozenset({OperationState.NOT_STARTED, OperationState.RUNNING})


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


async def read_status(storage: TaskStorage, workflow: Workflow[Any], task: str, caller: Caller) -> Status:
    """Return the status of an order, also before it has a task."""
    record = await storage.load(task)
    found = None if record is not None else await find_reservation(storage, task)
    if found is not None and found.is_admitted:  # at this moment
        found, record = None, await storage.load(task)
    if found is None:
        return _status_of(_visible(record, workflow, caller))
    _check_visible(found.workflow, found.submitter, workflow, caller)
    return _status_before(task, found)


async def cancel_order(storage: TaskStorage, workflow: Workflow[Any], task: str, caller: Caller) -> None:
    """Cancel an order: undo everything that was done. Raises `ProblemError` 403, 404 and 409."""
    record = _visible(await storage.load(task), workflow, caller)
    if record.order.submitter != caller.name:
        caller.check(Role.OPERATOR)  # a `Reader` sees the order and cannot act
    event = Cancelled(by=Canceller.CALLER, who=caller.name, reason="cancelled by its caller")
    with decision_span(record, "cancel"):
        try:
            applied = await storage.change(task, event)
        except NoSuchTaskError:
            raise _not_found(workflow) from None
    if applied.rejection is not None:
        raise ProblemError(HTTPStatus.CONFLICT, _why_not_cancelled(applied.record))


def _visible(record: TaskRecord | None, workflow: Workflow[Any], caller: Caller) -> TaskRecord:
    if record is None:
        raise _not_found(workflow)
    _check_visible(record.order.workflow, record.order.submitter, workflow, caller)
    return record


def _check_visible(name: str, submitter: str, workflow: Workflow[Any], caller: Caller) -> None:
    if name != workflow.name or not caller.may_see(submitter):
        raise _not_found(workflow)


def _not_found(workflow: Workflow[Any]) -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, f"No {workflow.noun} is recorded under this id (yet).")


def _why_not_cancelled(record: TaskRecord) -> str:
    if record.order.parent is not None:
        return "It is a step of another order. Cancel that order instead."
    if record.error is not None:
        return "It is in Error. An operator decides how it continues."
    if record.suspension is not None:
        return "An operator has suspended it. Ask the operator."
    if record.order.cancel_within is None:
        return "It was processed, and its workflow allows no cancellation afterwards."
    return "It was processed, and its time limit for cancellation has passed."


def _status_before(task: str, reservation: IdRecord) -> Status:
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


def _status_of(record: TaskRecord) -> Status:
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
        error=None if operation.state in _OPEN else caller_reason(operation.error),
    )
