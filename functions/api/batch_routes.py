"""The routes of batches: many orders in one request, each with its own answer."""

# ruff: noqa: I002 - FastAPI reads the annotations of routes at run time, and the models are made here

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model, model_validator
from pydantic.config import JsonDict

from functions.api.order_routes import EXAMPLE_ID, path_of
from functions.api.orders import BatchEnvelope, Draft, Orders, as_problem
from functions.core.definition.workflow_definition import Workflow
from functions.http.access import Caller, allowance_of, caller_of
from functions.http.problems import Problem, documented_problems, problem_of

_MOST_ORDERS = 500
#: Fields of a batch. A list of thousands of unknown fields takes longer than other requests may wait.
_MOST_FIELDS = 1_000
#: Seconds for which orders of a batch are validated before other requests continue, and faults of each order.
_TURN_SECONDS, _MOST_FAULTS = 0.005, 10
#: Rounds of the event loop that a short request needs.
_ROUNDS = 10

_BATCHES = """
Each order gets its own answer, in the order of the batch, with the `status` of a single order. The batch is
answered with 200. An order with 503 may be accepted; submit it again under its `id`.
"""


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


def add_batch_routes(app: FastAPI, workflow: Workflow[Any], orders: Orders) -> None:
    """Add the route of the batches of a workflow."""
    batch: Any = batch_model(workflow)

    @app.post(
        f"{path_of(workflow)}/batch",
        tags=[workflow.resource],
        response_model_exclude_none=True,
        responses=documented_problems(400, 413, 415, 422),
        description=f"Submit many {workflow.resource} at once\n{_BATCHES}",
    )
    async def submit_batch(body: Annotated[batch, Body()], request: Request) -> BatchAnswer:
        allowance_of(request).spend(len(body.items) - 1)  # the request itself has spent one
        return BatchAnswer(results=await take_batch(orders, workflow, body.items, caller_of(request)))


async def take_batch(
    orders: Orders, workflow: Workflow[Any], sent: Sequence[Any], caller: Caller
) -> list[BatchedAnswer]:
    """Submit orders, and answer each as a single one. The first order of the batch under an id counts."""
    drafts = await _drafts(orders, workflow, sent, caller)
    results = enumerate(zip(drafts, await orders.submit_all(drafts), strict=True))
    return [_batched_answer(workflow, index, draft, result) for index, (draft, result) in results]


async def _drafts(
    orders: Orders, workflow: Workflow[Any], sent: Sequence[Any], caller: Caller
) -> list[Draft]:
    """Return the draft of each order. Other requests are served in between."""
    time = asyncio.get_running_loop().time
    drafts: list[Draft] = []
    turn_ends = time()
    for order in sent:
        if time() >= turn_ends:
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            turn_ends = time() + _TURN_SECONDS
        drafts.append(orders.draft(workflow, order, caller, is_in_batch=True))
    return drafts


def _batched_answer(
    workflow: Workflow[Any], index: int, draft: Draft, result: str | Exception
) -> BatchedAnswer:
    task, location = draft.order.task_id, f"{path_of(workflow)}/{draft.order.task_id}"
    if isinstance(result, str):
        return BatchedAnswer(index=index, status=HTTPStatus.ACCEPTED, id=task, location=location)
    doing = f"order {index} of a batch of {workflow.resource}"
    problem = problem_of(as_problem(result), doing=doing, most_faults=_MOST_FAULTS)
    return BatchedAnswer(
        index=index, status=problem.status, id=None if draft.fault else task, problem=problem
    )
