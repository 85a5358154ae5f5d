"""The callers' FastAPI application: a resource for each workflow, whose orders are submitted and followed."""

# ruff: noqa: I002 - FastAPI needs the bodies' models themselves, which are made here and have no global name

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any

import azure.durable_functions as df
from fastapi import APIRouter, Body, FastAPI, Path, Response
from pydantic import BaseModel

from functions.api.acceptance import Acceptance
from functions.api.batch import BatchAcceptance
from functions.api.models import (
    EXAMPLE_ID,
    MAX_BATCH_BYTES,
    Accepted,
    BatchAnswer,
    OrderView,
    accepted_example,
    batch_example,
    batch_model,
    location_of,
    order_example,
    submission_model,
)
from functions.pattern.definition import Registry, Workflow
from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.pattern.messages import MAX_PAYLOAD_BYTES
from functions.web.access import GUARDED, AdmittedCaller, Guard
from functions.web.application import bare_application
from functions.web.blueprint import HttpRoute, http_blueprint
from functions.web.bodies import MOST_DEPTH, BodyLimit, BodyLimits
from functions.web.callers import Role
from functions.web.caps import CallersAllowance
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems

_HEALTH = "/api/health"
_BATCH = "/batch"

#: A batch holds a list in an object; its orders may be nested as deep as single ones.
_BATCH_LIMIT = BodyLimit(MAX_BATCH_BYTES, MOST_DEPTH + 2)


OrderId = Annotated[
    str,
    Path(
        pattern=TASK_ID_PATTERN, description="The order's id, as its caller names it", examples=[EXAMPLE_ID]
    ),
]


class Health(BaseModel):
    """The application answers, and so does its state store."""

    status: str = "healthy"


def api_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the application twice: its health is open, everything else needs a function key."""
    methods = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
    return http_blueprint(
        application, HttpRoute("health", "health", is_open=True), HttpRoute("api", "{*route}", methods)
    )


def callers_application(
    registry: Registry, acceptance: Acceptance, check_store: Callable[[], Awaitable[None]], *, guard: Guard
) -> FastAPI:
    """Serve a resource for each workflow, and the application's health, which is open to all."""
    app = bare_application("Orders", responses=GUARDED)
    batches = {("POST", batch_path(workflow)): _BATCH_LIMIT for workflow in registry}
    app.add_middleware(BodyLimits, limit=BodyLimit(MAX_PAYLOAD_BYTES), larger=batches)
    guard.protect(
        app, reading={Role.SUBMITTER, Role.OPERATOR}, writing={Role.SUBMITTER}, open_paths={_HEALTH}
    )
    for workflow in registry:
        router = APIRouter(prefix=f"/api/{workflow.resource}", tags=[workflow.resource])
        _add_orders(router, workflow, acceptance)
        _add_batches(router, workflow, acceptance)
        app.include_router(router)

    @app.get(
        _HEALTH,
        tags=["health"],
        responses=documented_answer({"status": "healthy"}) | documented_problems(503),
        openapi_extra={"security": []},
    )
    async def health() -> Health:
        """Tell whether orders can be taken and followed."""
        await check_store()
        return Health()

    return app


def batch_path(workflow: Workflow) -> str:
    """Give the path to which batches of the workflow's orders are posted."""
    return f"/api/{workflow.resource}{_BATCH}"


def _add_orders(router: APIRouter, workflow: Workflow, acceptance: Acceptance) -> None:
    """Add the routes by which orders of `workflow` are submitted and followed."""
    submission: Any = submission_model(workflow)
    taken = documented_answer(accepted_example(workflow), HTTPStatus.ACCEPTED)

    def accepted(task: TaskId, response: Response) -> Accepted:
        location = location_of(workflow, task)
        response.headers["Location"] = location
        return Accepted(id=task, location=location)

    @router.post(
        "", status_code=HTTPStatus.ACCEPTED, responses=taken | documented_problems(400, 413, 415, 422, 503)
    )
    async def submit(
        body: Annotated[submission, Body()], caller: AdmittedCaller, response: Response
    ) -> Accepted:
        """Submit an order under a new id."""
        return accepted(await acceptance.submit(workflow, None, body, caller), response)

    @router.put(
        "/{order_id}",
        status_code=HTTPStatus.ACCEPTED,
        responses=taken | documented_problems(400, 409, 413, 415, 422, 503),
    )
    async def submit_as(
        order_id: OrderId, body: Annotated[submission, Body()], caller: AdmittedCaller, response: Response
    ) -> Accepted:
        """Submit an order under the caller's id; the same order again gets the same answer."""
        return accepted(await acceptance.submit(workflow, TaskId(order_id), body, caller), response)

    @router.get(
        "/{order_id}",
        responses=documented_answer(order_example(workflow)) | documented_problems(404, 422, 503),
    )
    async def show(order_id: OrderId, caller: AdmittedCaller) -> OrderView:
        """Tell how far an order is."""
        return OrderView.model_validate(await acceptance.find(workflow, TaskId(order_id), caller))


def _add_batches(router: APIRouter, workflow: Workflow, acceptance: Acceptance) -> None:
    """Add the route for batches of the workflow's orders."""
    batches = BatchAcceptance(workflow, acceptance)
    batch: Any = batch_model(workflow)

    @router.post(
        _BATCH,
        response_model_exclude_none=True,
        responses=documented_answer(batch_example(workflow)) | documented_problems(400, 413, 415, 422),
    )
    async def submit_batch(
        body: Annotated[batch, Body()], caller: AdmittedCaller, allowance: CallersAllowance
    ) -> BatchAnswer:
        """Submit many orders at once; each gets its own answer, in the batch's order.

        The batch as a whole is answered with 200, whatever became of its orders: 202 would say that all of
        them are accepted, and 207 is WebDAV's, with a body in XML. Each order's `status` is the one that it
        would have got by itself. An order with 503 may be accepted nevertheless; repeat it under its `id`.
        """
        allowance.spend(len(body.orders) - 1)  # the request itself has been paid for
        return BatchAnswer(results=await batches.take(body.orders, caller))
