"""What callers send and are shown: an order, alone or in a batch, with examples for the API pages."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SkipValidation,
    create_model,
    model_validator,
)
from pydantic.config import JsonDict

from functions.pattern.definition import Workflow
from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.pattern.messages import CorrelationId
from functions.pattern.plain_reasons import plain_reason
from functions.pattern.states import ProcessState
from functions.web.problems import Problem
from functions.web.views import StepView, read_from

#: Most orders are far smaller than the largest, so the batch has a limit of its own on its bytes.
MAX_BATCH_BYTES = 1024 * 1024

EXAMPLE_ID = TaskId("my-id-1")

TaskInPath = Annotated[
    str,
    Path(
        alias="id",
        pattern=TASK_ID_PATTERN,
        description="The id, as the caller gives it, or was given it",
        examples=[EXAMPLE_ID],
    ),
]


class Envelope(BaseModel):
    """The fields of a submission beside the order; aliases, since a payload's model may generate others."""

    reply_to: Annotated[str | None, Field(max_length=260, alias="reply_to")] = None
    correlation_id: Annotated[CorrelationId | None, Field(alias="correlation_id")] = None


class EnvelopeAlone(Envelope):
    """The same, of an order that may have no other fields than its payload's."""

    model_config = ConfigDict(extra="forbid")


class InBatch(Envelope):
    """What an order in a batch carries beside the order itself."""

    id: Annotated[
        str | None,
        Field(alias="id", pattern=TASK_ID_PATTERN, description="An id; without one, it is given a new one."),
    ] = None


def submission_model(workflow: Workflow) -> type[BaseModel]:
    """Make the model of an order that is sent by itself; its id, if any, is in the path."""
    return create_model(f"{workflow.payload.__name__}Submission", __base__=(workflow.payload, Envelope))


def batch_model(workflow: Workflow) -> type[BaseModel]:
    """Make the model of a batch, in the resource's name; left as it came, as each is checked by itself."""
    # The item's model is for the OpenAPI document.
    item: Any = create_model(f"{workflow.payload.__name__}InBatch", __base__=(workflow.payload, InBatch))
    examples: list[Any] = workflow.payload.model_json_schema().get("examples", [])
    # Two each, one of them under an id.
    batches: JsonDict = {
        "examples": [{workflow.resource: [{"id": EXAMPLE_ID, **each}, each]} for each in examples]
    }
    few_fields: Any = model_validator(mode="before")(_few_fields)
    bounds: Any = Field(min_length=1, max_length=500, alias=workflow.resource)
    return create_model(
        f"{workflow.payload.__name__}Batch",
        __config__=ConfigDict(extra="forbid", json_schema_extra=batches),
        __validators__={"few_fields": few_fields},
        items=(Annotated[list[SkipValidation[item]], bounds], ...),
    )


def _few_fields(sent: Any) -> Any:
    """Refuse a batch with fields by the thousands: to list each as unknown takes longer than others wait."""
    most_fields = 1_000
    if isinstance(sent, dict) and len(sent) > most_fields:
        raise ValueError(f"{len(sent)} fields beside each other, of which one is known")
    return sent


PlainReason = Annotated[str | None, BeforeValidator(plain_reason)]


class ShownStep(StepView):
    """How far one step is; times are UTC."""

    error: PlainReason


class Status(BaseModel):
    """How far it is; times are UTC. The `answer` is the workflow's, once it is processed."""

    model_config = ConfigDict(from_attributes=True)

    id: str = read_from("order", "task")
    workflow: str = read_from("order", "workflow")
    state: ProcessState = read_from("task", "process_state")
    submitted_at: datetime = read_from("order", "submitted_at")
    finished_at: datetime | None = read_from("task", "finished_at")
    correlation_id: str | None = read_from("order", "correlation_id")
    steps: list[ShownStep]
    last_error: PlainReason = read_from("task", "last_error")
    answer: Annotated[dict[str, Any] | None, BeforeValidator(lambda it: it and json.loads(it))] = read_from(
        "task", "answer"
    )


def location_of(workflow: Workflow, task: TaskId) -> str:
    """Give the path at which an order can be followed."""
    return f"/api/{workflow.resource}/{task}"


class Accepted(BaseModel):
    """It is taken; `location` tells how far it is."""

    id: Annotated[str, Field(examples=[EXAMPLE_ID])]
    location: Annotated[str, Field(examples=[f"/api/{{resource}}/{EXAMPLE_ID}"])]


class BatchedAnswer(BaseModel):
    """What became of one of a batch; `index` counts from 0. Either `location` or `problem` is there."""

    index: int
    status: int
    id: str | None = None
    location: str | None = None
    problem: Problem | None = None


class BatchAnswer(BaseModel):
    """What became of each of a batch, in the batch's order."""

    results: list[BatchedAnswer]
