"""The callers' FastAPI application: a resource for each workflow, batches, and the health check."""

# ruff: noqa: I002 - FastAPI reads the annotations of routes at run time, and the models are made here

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request, Response
from pydantic import BaseModel, SkipValidation

from functions.api.event_routes import EVENT_PATHS, Events, add_event_routes
from functions.api.order_models import (
    Accepted,
    BatchAnswer,
    BatchedAnswer,
    Status,
    TaskInPath,
    batch_model,
    location_of,
    status_of,
    submission_model,
)
from functions.api.orders import Identity, Orders, as_problem, id_conflict, identity_of
from functions.core.workflow_definition import UnfitOrderError, Workflow, WorkflowRegistry
from functions.messaging.message_format import MOST_PAYLOAD_BYTES, SubmissionMessage
from functions.messaging.senders import SendError
from functions.storage.table_contract import TransientStorageError
from functions.web.access import GUARDED, Access, Gate, Guard, caller_of
from functions.web.application import bare_application
from functions.web.bodies import MOST_DEPTH, BodyLimit, BodyLimits
from functions.web.callers import Caller, Role
from functions.web.caps import allowance_of
from functions.web.problems import Problem, answer_to, documented_problems, problem_of

_HEALTH = "/api/health"
_MOST_BATCH_BYTES = 1024 * 1024
#: Seconds for which the health of the store is remembered.
_HEALTH_SECONDS = 1.0
#: Seconds for which orders of a batch are validated before other requests continue, and faults of each order.
_TURN_SECONDS, _MOST_FAULTS = 0.005, 10
#: Rounds of the event loop that a short request needs, and orders of a batch that are read at once.
_ROUNDS, _READS_AT_ONCE = 10, 100

_BATCHES = """
Each order gets its own answer, in the order of the batch, with the `status` of a single order. The batch is
answered with 200. An order with 503 may be accepted; submit it again under its `id`.
"""


class Health(BaseModel):
    """The application and its state store answer."""

    status: str = "healthy"


def callers_application(
    registry: WorkflowRegistry,
    orders: Orders,
    events: Events,
    check_store: Callable[[], Awaitable[None]],
    *,
    guard: Guard,
    intake: Gate | None = None,
) -> FastAPI:
    """Return the application. `check_store` raises `TransientStorageError` if the store does not answer.

    `intake` rejects requests with new orders (`IntakeLimit.check`).
    """
    app = bare_application("Callers", responses=GUARDED)
    newest = [workflow for workflow in registry if registry.find(workflow.name) is workflow]
    access = Access(
        reading={Role.SUBMITTER, Role.READER, Role.OPERATOR},
        writing={Role.SUBMITTER},
        open_paths={_HEALTH},
        by_route=EVENT_PATHS,
    )
    batches = BodyLimit(_MOST_BATCH_BYTES, MOST_DEPTH + 2)  # the orders are below an object and a list
    larger = {("POST", f"{_path(workflow)}/batch"): batches for workflow in newest}
    guard.protect(app, access, BodyLimits(BodyLimit(MOST_PAYLOAD_BYTES), larger), intake)
    for kind in (TransientStorageError, SendError, UnfitOrderError):
        app.add_exception_handler(kind, _answer)
    for workflow in newest:
        _add_orders(app, workflow, orders)
        _add_batches(app, workflow, orders)
        add_event_routes(app, workflow, events)
    store = StoreHealth(check_store)

    @app.get(_HEALTH, tags=["health"], responses=documented_problems(503), openapi_extra={"security": []})
    async def health() -> Health:
        """Return whether orders can be accepted and read, at most a second ago."""
        await store.check()
        return Health()

    return app


def _path(workflow: Workflow[Any]) -> str:
    return f"/api/{workflow.resource}"


async def _answer(request: Request, error: Exception) -> Response:
    return answer_to(as_problem(error), request.scope)


# The routes are those of the application itself: an included router takes three times as long.
def _add_orders(app: FastAPI, workflow: Workflow[Any], orders: Orders) -> None:
    # The OpenAPI document shows the model. `Orders.draft` validates the order.
    submission: Any = Annotated[submission_model(workflow), SkipValidation]
    noun, within = workflow.noun, workflow.cancel_within
    processed = "not after it was" if within is None else f"up to {within:g} seconds after it was"

    def accepted(task: str, response: Response) -> Accepted:
        location = location_of(workflow, task)
        response.headers["Location"] = location
        return Accepted(id=task, location=location)

    @app.post(
        _path(workflow),
        tags=[workflow.resource],
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(400, 413, 415, 422, 503),
        description=f"Submit a new {noun}, which gets an id",
    )
    async def submit(sent: Annotated[submission, Body()], request: Request, response: Response) -> Accepted:
        return accepted(await orders.submit_one(workflow, None, sent, caller_of(request)), response)

    @app.put(
        f"{_path(workflow)}/{{id}}",
        tags=[workflow.resource],
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(400, 409, 413, 415, 422, 503),
        description=f"Submit this {noun} under your id; the same again gets the same answer",
    )
    async def submit_as(
        task: TaskInPath, sent: Annotated[submission, Body()], request: Request, response: Response
    ) -> Accepted:
        return accepted(await orders.submit_one(workflow, task, sent, caller_of(request)), response)

    @app.get(
        f"{_path(workflow)}/{{id}}",
        tags=[workflow.resource],
        responses=documented_problems(404, 422, 503),
        description=f"Show the status of this {noun}, and its output",
    )
    async def show(task: TaskInPath, request: Request) -> Status:
        return status_of(await orders.find(workflow, task, caller_of(request)))

    @app.delete(
        f"{_path(workflow)}/{{id}}",
        tags=[workflow.resource],
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(404, 409, 422, 503),
        description=f"Cancel this {noun}: every effect is undone\n\nPossible until it has ended, and"
        f" {processed} processed; 409 has the reason otherwise. Its state is `Compensated` at the end. A"
        " repeated request gets the same answer.",
    )
    async def cancel(task: TaskInPath, request: Request, response: Response) -> Accepted:
        await orders.cancel(workflow, task, caller_of(request))
        return accepted(task, response)


def _add_batches(app: FastAPI, workflow: Workflow[Any], orders: Orders) -> None:
    batch: Any = batch_model(workflow)

    @app.post(
        f"{_path(workflow)}/batch",
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
    first: dict[str, SubmissionMessage] = {}
    for draft in drafts:
        if isinstance(draft, SubmissionMessage):
            first.setdefault(draft.task_id, draft)
    named = [
        draft.task_id
        for order, draft in zip(sent, drafts, strict=True)
        if isinstance(draft, SubmissionMessage) and order.get("id") is not None
    ]
    known = await _recorded(orders, set(named))
    new = [draft for task, draft in first.items() if known.get(task) is None]
    for draft, fault in zip(new, await orders.submit(new), strict=True):
        known[draft.task_id] = identity_of(draft) if fault is None else _problem_of(fault, draft.task_id)
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


async def _recorded(orders: Orders, tasks: Collection[str]) -> dict[str, Identity | Problem | None]:
    """Return the identity of the order on record under each id, or the problem of its read."""
    limit = asyncio.Semaphore(_READS_AT_ONCE)

    async def read(task: str) -> Identity | Problem | None:
        try:
            async with limit:
                return await orders.recorded(task)
        except Exception as error:  # noqa: BLE001 - one order stops no other
            return _problem_of(error, task)

    return dict(zip(tasks, await asyncio.gather(*map(read, tasks)), strict=True))


def _problem_of(fault: BaseException, task: str) -> Problem:
    interrupted = SendError(f"interrupted: {type(fault).__name__}")
    error = as_problem(fault if isinstance(fault, Exception) else interrupted)
    return problem_of(error, doing=f"task {task}: submission in a batch")


def _batched_answer(
    workflow: Workflow[Any],
    index: int,
    draft: SubmissionMessage | Problem,
    known: Mapping[str, Identity | Problem | None],
) -> BatchedAnswer:
    if isinstance(draft, Problem):
        return BatchedAnswer(index=index, status=draft.status, problem=draft)
    task = draft.task_id
    found = known[task]
    if not isinstance(found, Problem) and found != identity_of(draft):
        found = problem_of(id_conflict(), doing=f"task {task}")
    if isinstance(found, Problem):
        return BatchedAnswer(index=index, status=found.status, id=task, problem=found)
    location = location_of(workflow, task)
    return BatchedAnswer(index=index, status=HTTPStatus.ACCEPTED, id=task, location=location)


class StoreHealth:
    """The health of the state store, which is checked at most once a second for all requests."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check_store = check
        self._checking: asyncio.Task[str | None] | None = None
        self._next_at = 0.0

    async def check(self) -> None:
        """Raise `TransientStorageError` if the state store does not answer."""
        now = asyncio.get_running_loop().time()
        if self._checking is None or (self._checking.done() and now >= self._next_at):
            self._next_at = now + _HEALTH_SECONDS
            self._checking = asyncio.create_task(self._checked())
        fault = await asyncio.shield(self._checking)
        if fault is not None:
            raise TransientStorageError(fault)

    async def _checked(self) -> str | None:
        try:
            await self._check_store()
        except TransientStorageError as error:
            return str(error)
        return None
