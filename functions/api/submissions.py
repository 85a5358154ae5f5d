"""What callers send: an order with its envelope, alone or in a batch."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model
from pydantic.config import JsonDict

from functions.pattern.definition import Workflow
from functions.pattern.identity import TASK_ID_PATTERN
from functions.pattern.messages import CorrelationId

#: Most orders are far smaller than the largest, so the batch has a limit of its own on its bytes.
MAX_BATCH_ORDERS = 500
MAX_BATCH_BYTES = 4 * 1024 * 1024


class Envelope(BaseModel):
    """What a submission carries beside the order itself."""

    reply_to: Annotated[str | None, Field(max_length=260)] = None
    correlation_id: CorrelationId | None = None


class InBatch(Envelope):
    """What an order in a batch carries beside the order itself."""

    id: Annotated[
        str | None,
        Field(pattern=TASK_ID_PATTERN, description="The order's id; without one it is given a new one."),
    ] = None


def submission_model(workflow: Workflow) -> type[BaseModel]:
    """Make the model of an order that is sent by itself; its id, if any, is in the path."""
    return create_model(f"{workflow.payload.__name__}Submission", __base__=(workflow.payload, Envelope))


def batch_item_model(workflow: Workflow) -> type[InBatch]:
    """Make the model of one order in a batch."""
    name = f"{workflow.payload.__name__}InBatch"
    return cast("type[InBatch]", create_model(name, __base__=(workflow.payload, InBatch)))


def batch_model(workflow: Workflow) -> type[BaseModel]:
    """Make the model of a batch. It leaves its orders as they came: each is checked by itself."""
    item: Any = batch_item_model(workflow)  # for the OpenAPI document
    examples: list[Any] = workflow.payload.model_json_schema().get("examples", [])
    # Two orders each, one of them under an id.
    batches: JsonDict = {"examples": [{"orders": [{"id": "order-1", **each}, each]} for each in examples]}
    orders: Any = Annotated[list[SkipValidation[item]], Field(min_length=1, max_length=MAX_BATCH_ORDERS)]
    return create_model(
        f"{workflow.payload.__name__}Batch",
        __config__=ConfigDict(extra="forbid", json_schema_extra=batches),
        orders=orders,
    )
