"""The routes of batches: many orders in one request, each with its own answer."""

# ruff: noqa: I002 - FastAPI reads the annotations of routes at run time, and the models are made here

import asyncio
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model, model_validator
from pydantic.config import JsonDict

from functions.api.order_routes import EXAMPLE_ID, path_of
from functions.api.orders import BatchEnvelope, Orders, as_problem, id_conflict, to_send
from functions.core.workflow_definition import Workflow
from functions.http.access import Caller, allowance_of, caller_of
from functions.http.problems import Problem, documented_problems, problem_of
from functions.messaging.message_format import TASK_ID_PATTERN, Identity, SubmissionMessage
from functions.messaging.reservations import find_reservation, reserve
from functions.messaging.senders import SendError
from functions.storage.task_storage import TaskStorage

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
    drafts = await _with_recorded(
        orders, workflow, sent, caller, await _drafts(orders, workflow, sent, caller)
    )
    first: dict[str, SubmissionMessage] = {}
    for draft in drafts:
        if isinstance(draft, SubmissionMessage):
            first.setdefault(draft.task_id, draft)
    named = {
        draft.task_id: first[draft.task_id]
        for order, draft in zip(sent, drafts, strict=True)
        if isinstance(draft, SubmissionMessage) and order.get("id") is not None
    }
    reserved = dict(zip(named, await _reserved(orders.storage, [*named.values()]), strict=True))
    messages = {task: reserved.get(task, draft) for task, draft in first.items()}
    new = [message for message in messages.values() if isinstance(message, SubmissionMessage)]
    faults = {task: each for task, each in messages.items() if isinstance(each, BaseException)}
    results = zip(new, await orders.submit(new), strict=True)
    faults |= {message.task_id: fault for message, fault in results if fault is not None}
    known: dict[str, Identity | Problem] = {task: draft.identity for task, draft in first.items()}
    known |= {task: _problem_of(fault, task) for task, fault in faults.items()}
    return [_batched_answer(workflow, index, draft, known) for index, draft in enumerate(drafts)]


async def _drafts(
    orders: Orders, workflow: Workflow[Any], sent: Sequence[Any], caller: Caller
) -> list[SubmissionMessage | Problem]:
    """Return the draft of each order, or its problem. Other requests are served in between."""
    time = asyncio.get_running_loop().time
    drafts: list[SubmissionMessage | Problem] = []
    turn_ends = time()
    for order in sent:
        if time() >= turn_ends:
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            turn_ends = time() + _TURN_SECONDS
        try:
            drafts.append(orders.draft(workflow, order, caller, is_in_batch=True))
        except Exception as error:  # noqa: BLE001 - one order stops no other
            doing = f"validation in a batch of {workflow.resource}"
            drafts.append(problem_of(as_problem(error), doing=doing, most_faults=_MOST_FAULTS))
    return drafts


async def _with_recorded(
    orders: Orders,
    workflow: Workflow[Any],
    sent: Sequence[Any],
    caller: Caller,
    drafts: Sequence[SubmissionMessage | Problem],
) -> list[SubmissionMessage | Problem | str]:
    """Replace the problem of an invalid order by its id if it has a task: a deployment changed the checks."""
    unfit = {
        index: order["id"]
        for index, (order, draft) in enumerate(zip(sent, drafts, strict=True))
        if isinstance(draft, Problem) and draft.status == HTTPStatus.UNPROCESSABLE_ENTITY and _has_id(order)
    }
    reads = (orders.is_recorded(workflow, task, sent[index], caller) for index, task in unfit.items())
    found = await asyncio.gather(*reads, return_exceptions=True)
    settled: list[SubmissionMessage | Problem | str] = [*drafts]
    for (index, task), result in zip(unfit.items(), found, strict=True):
        if result:
            settled[index] = _problem_of(result, task) if isinstance(result, BaseException) else task
    return settled


def _has_id(order: Any) -> bool:
    task = order.get("id") if isinstance(order, dict) else None
    return isinstance(task, str) and re.fullmatch(TASK_ID_PATTERN, task) is not None


async def _reserved(
    storage: TaskStorage, orders: Sequence[SubmissionMessage]
) -> Sequence[SubmissionMessage | BaseException | None]:
    """Reserve the ids of orders, and return `to_send` or the error for each.

    If the first one is known, all are read before: a conflict costs more.
    """
    probes = (find_reservation(storage, order.task_id) for order in orders[:1])
    is_known = await asyncio.gather(*probes, return_exceptions=True) != [None]

    async def reserved(order: SubmissionMessage) -> SubmissionMessage | None:
        found = await find_reservation(storage, order.task_id) if is_known else None
        if found is None or found.rejected is not None:
            found = await reserve(storage, order)
        return to_send(order, found)

    return await asyncio.gather(*map(reserved, orders), return_exceptions=True)


def _problem_of(fault: BaseException, task: str) -> Problem:
    interrupted = SendError(f"interrupted: {type(fault).__name__}")
    error = as_problem(fault if isinstance(fault, Exception) else interrupted)
    return problem_of(error, doing=f"task {task}: submission in a batch")


def _batched_answer(
    workflow: Workflow[Any],
    index: int,
    draft: SubmissionMessage | Problem | str,
    known: Mapping[str, Identity | Problem],
) -> BatchedAnswer:
    if isinstance(draft, Problem):
        return BatchedAnswer(index=index, status=draft.status, problem=draft)
    task = draft if isinstance(draft, str) else draft.task_id
    found = None if isinstance(draft, str) else known[task]
    if isinstance(draft, SubmissionMessage) and not isinstance(found, Problem) and found != draft.identity:
        found = problem_of(id_conflict(), doing=f"task {task}")
    if isinstance(found, Problem):
        return BatchedAnswer(index=index, status=found.status, id=task, problem=found)
    location = f"{path_of(workflow)}/{task}"
    return BatchedAnswer(index=index, status=HTTPStatus.ACCEPTED, id=task, location=location)
