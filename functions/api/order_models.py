"""The bodies of the callers' API, with examples for its pages. Times are UTC."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model, model_validator
from pydantic.config import JsonDict
from pydantic_core import from_json

from functions.core.derive import ProcessState, StepState, derive, step_state
from functions.core.record import NOT_STARTED, StepSpec, TaskRecord
from functions.core.workflow_definition import Workflow
from functions.messaging.message_format import CorrelationId, TaskId
from functions.messaging.reservations import Reservation
from functions.messaging.task_messages import caller_reason
from functions.web.problems import Problem

EXAMPLE_ID = "my-id-1"
_MOST_ORDERS = 500
#: Fields of a batch. A list of thousands of unknown fields takes longer than other requests may wait.
_MOST_FIELDS = 1_000

TaskInPath = Annotated[
    TaskId, Path(alias="id", description="The id that the caller chose or received", examples=[EXAMPLE_ID])
]


class Envelope(BaseModel):
    """The fields of a submission beside the payload. A payload's model may generate other aliases."""

    reply_to: Annotated[str | None, Field(max_length=260, alias="reply_to")] = None
    correlation_id: Annotated[CorrelationId | None, Field(alias="correlation_id")] = None


class SingleEnvelope(Envelope):
    """The envelope of an order whose payload allows no other fields."""

    model_config = ConfigDict(extra="forbid")


class BatchEnvelope(Envelope):
    """The envelope of an order in a batch."""

    id: Annotated[TaskId | None, Field(alias="id", description="An id; without it the order gets one.")] = (
        None
    )


def submission_model(workflow: Workflow[Any]) -> type[BaseModel]:
    """Return the model of a single order."""
    return create_model(f"{workflow.payload.__name__}Submission", __base__=(workflow.payload, Envelope))


def batch_model(workflow: Workflow[Any]) -> type[BaseModel]:
    """Return the model of a batch, whose `items` have the name of the resource and are not validated."""
    # The OpenAPI document shows the model of an item.
    item: Any = create_model(
        f"{workflow.payload.__name__}InBatch", __base__=(workflow.payload, BatchEnvelope)
    )
    examples: list[Any] = workflow.payload.model_json_schema().get("examples", [])
    batches: JsonDict = {
        "examples": [{workflow.resource: [{"id": EXAMPLE_ID, **each}, each]} for each in examples]
    }
    few_fields: Any = model_validator(mode="before")(_check_fields)
    bounds: Any = Field(min_length=1, max_length=_MOST_ORDERS, alias=workflow.resource)
    return create_model(
        f"{workflow.payload.__name__}Batch",
        __config__=ConfigDict(extra="forbid", json_schema_extra=batches),
        __validators__={"few_fields": few_fields},
        items=(Annotated[list[SkipValidation[item]], bounds], ...),
    )


def _check_fields(sent: Any) -> Any:
    if isinstance(sent, dict) and len(sent) > _MOST_FIELDS:
        raise ValueError(f"{len(sent)} fields, of which one is known")
    return sent


class Accepted(BaseModel):
    """The order is accepted; `location` has its status."""

    id: Annotated[str, Field(examples=[EXAMPLE_ID])]
    location: Annotated[str, Field(examples=[f"/api/{{resource}}/{EXAMPLE_ID}"])]


class BatchedAnswer(BaseModel):
    """The answer to one order of a batch, with either `location` or `problem`. `index` counts from 0."""

    index: int
    status: int
    id: str | None = None
    location: str | None = None
    problem: Problem | None = None


class BatchAnswer(BaseModel):
    """The answers to the orders of a batch, in its order."""

    results: list[BatchedAnswer]


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
