"""The callers' FastAPI application: a resource for each workflow, whose orders are submitted and followed."""

# ruff: noqa: I002 - FastAPI needs the bodies' models themselves, which are made here and have no global name

from collections.abc import Awaitable, Callable
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request, Response
from pydantic import BaseModel, SkipValidation

from functions.api.acceptance import Acceptance
from functions.api.batch import BatchAcceptance
from functions.api.events import EVENT_PATHS, add_events
from functions.api.gate import Gate, StoreHealth
from functions.api.models import (
    MAX_BATCH_BYTES,
    Accepted,
    BatchAnswer,
    Status,
    TaskInPath,
    batch_model,
    location_of,
    submission_model,
)
from functions.pattern.definition import Registry, Workflow
from functions.pattern.identity import TaskId
from functions.pattern.messages import MAX_PAYLOAD_BYTES
from functions.web.access import GUARDED, Access, Guard, caller_of
from functions.web.application import bare_application
from functions.web.bodies import MOST_DEPTH, BodyLimit, BodyLimits
from functions.web.callers import Role
from functions.web.caps import allowance_of
from functions.web.events import Events
from functions.web.problems import documented_problems

_HEALTH = "/api/health"
_BATCH = "/batch"

_OF_BATCHES = """
Each gets its own answer, in the batch's order. The batch as a whole is answered with 200, whatever became of
each: 202 would say that all of them are accepted, and 207 is WebDAV's, with a body in XML. A `status` is the
one that each would have got by itself. One with 503 may be accepted nevertheless; repeat it under its `id`.
"""


class Health(BaseModel):
    """The application answers, and so does its state store."""

    status: str = "healthy"


def callers_application(
    registry: Registry,
    acceptance: Acceptance,
    events: Events,
    check_store: Callable[[], Awaitable[None]],
    *,
    guard: Guard,
    gate: Gate | None = None,
) -> FastAPI:
    """Serve a resource for each workflow, and the health, open to all; a closed `gate` takes no order."""
    app = bare_application("Callers", responses=GUARDED)
    batches = {_path(workflow) + _BATCH for workflow in registry.newest}
    access = Access(
        reading={Role.SUBMITTER, Role.READER, Role.OPERATOR},
        writing={Role.SUBMITTER},
        open_paths={_HEALTH},
        by_route=EVENT_PATHS,
    )
    # A batch holds a list in an object; its orders may be nested as deep as single ones.
    of_batch = BodyLimit(MAX_BATCH_BYTES, MOST_DEPTH + 2)
    bodies = BodyLimits(BodyLimit(MAX_PAYLOAD_BYTES), {("POST", path): of_batch for path in batches})
    guard.protect(app, access, bodies, None if gate is None else gate.check)
    store = StoreHealth(check_store)
    for workflow in registry.newest:
        _add_orders(app, workflow, acceptance)
        _add_batches(app, workflow, acceptance)
        add_events(app, workflow, events)

    @app.get(
        _HEALTH,
        tags=["health"],
        responses=documented_problems(503),
        openapi_extra={"security": []},
    )
    async def health() -> Health:
        """Tell whether anything can be taken and followed, as it was within the last second."""
        await store.check()
        return Health()

    return app


# The routes are the application's own: to find one in an included router takes three times as long.
def _add_orders(app: FastAPI, workflow: Workflow, acceptance: Acceptance) -> None:
    path = _path(workflow)
    tags: list[str | Enum] = [workflow.resource]
    # The model is for the OpenAPI document: the order is left as it came, and checked when it is drafted.
    submission: Any = Annotated[submission_model(workflow), SkipValidation]
    noun, within = workflow.noun, workflow.cancel_within
    processed = "not any more when it was" if within is None else f"up to {within:g} seconds after it was"

    def accepted(task: TaskId, response: Response) -> Accepted:
        location = location_of(workflow, task)
        response.headers["Location"] = location
        return Accepted(id=task, location=location)

    @app.post(
        path,
        tags=tags,
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(400, 413, 415, 422, 503),
        description=f"Submit a new {noun}, which is given an id",
    )
    async def submit(sent: Annotated[submission, Body()], request: Request, response: Response) -> Accepted:
        return accepted(await acceptance.submit(workflow, None, sent, caller_of(request)), response)

    @app.put(
        f"{path}/{{id}}",
        tags=tags,
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(400, 409, 413, 415, 422, 503),
        description=f"Submit this {noun} under your id; the same again gets the same answer",
    )
    async def submit_as(
        task: TaskInPath, sent: Annotated[submission, Body()], request: Request, response: Response
    ) -> Accepted:
        return accepted(await acceptance.submit(workflow, TaskId(task), sent, caller_of(request)), response)

    @app.get(
        f"{path}/{{id}}",
        tags=tags,
        responses=documented_problems(404, 422, 503),
        description=f"Show how far this {noun} is, and its answer",
    )
    async def show(task: TaskInPath, request: Request) -> Status:
        return Status.model_validate(await acceptance.find(workflow, TaskId(task), caller_of(request)))

    @app.delete(
        f"{path}/{{id}}",
        tags=tags,
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(404, 409, 422, 503),
        description=f"Cancel this {noun}: what was done for it is undone\n\nPossible while it is under way,"
        f" and {processed} processed; 409 says why it is not. Its state becomes `Compensated` when all is"
        " undone. A repeated request gets the same answer.",
    )
    async def cancel(task: TaskInPath, request: Request, response: Response) -> Accepted:
        await acceptance.cancel(workflow, TaskId(task), caller_of(request))
        return accepted(TaskId(task), response)


def _path(workflow: Workflow) -> str:
    return f"/api/{workflow.resource}"


def _add_batches(app: FastAPI, workflow: Workflow, acceptance: Acceptance) -> None:
    batches = BatchAcceptance(workflow, acceptance)
    batch: Any = batch_model(workflow)

    @app.post(
        _path(workflow) + _BATCH,
        tags=[workflow.resource],
        response_model_exclude_none=True,
        responses=documented_problems(400, 413, 415, 422),
        description=f"Submit many {workflow.resource} at once\n{_OF_BATCHES}",
    )
    async def submit_batch(body: Annotated[batch, Body()], request: Request) -> BatchAnswer:
        allowance_of(request).spend(len(body.items) - 1)  # the request itself has been paid for
        return BatchAnswer(results=await batches.take(body.items, caller_of(request)))
