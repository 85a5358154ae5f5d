"""The routes of one workflow's resource."""

# ruff: noqa: I002 - FastAPI needs the body's model itself, which is made here and has no global name

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Response

from functions.api.acceptance import Acceptance
from functions.api.examples import EXAMPLE_ID, accepted_example, order_example
from functions.api.submissions import submission_model
from functions.api.views import Accepted, OrderView, location_of
from functions.pattern.definition import Workflow
from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.web.access import AdmittedCaller
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems

OrderId = Annotated[
    str,
    Path(
        pattern=TASK_ID_PATTERN, description="The order's id, as its caller names it", examples=[EXAMPLE_ID]
    ),
]


def resource_routes(workflow: Workflow, acceptance: Acceptance) -> APIRouter:
    """Make the routes by which orders of `workflow` are submitted and followed."""
    router = APIRouter(prefix=f"/api/{workflow.resource}", tags=[workflow.resource])
    submission: Any = submission_model(workflow)
    taken = documented_answer(accepted_example(workflow), HTTPStatus.ACCEPTED)

    def accepted(task: TaskId, response: Response) -> Accepted:
        location = location_of(workflow, task)
        response.headers["Location"] = location
        return Accepted(id=task, location=location)

    @router.post(
        "",
        status_code=HTTPStatus.ACCEPTED,
        responses=taken | documented_problems(400, 413, 415, 422, 503),
    )
    async def submit(
        body: Annotated[submission, Body()], caller: AdmittedCaller, response: Response
    ) -> Accepted:
        """Submit an order under a new id."""
        return accepted(await acceptance.create(workflow, body, caller), response)

    @router.put(
        "/{order_id}",
        status_code=HTTPStatus.ACCEPTED,
        responses=taken | documented_problems(400, 409, 413, 415, 422, 503),
    )
    async def submit_as(
        order_id: OrderId,
        body: Annotated[submission, Body()],
        caller: AdmittedCaller,
        response: Response,
    ) -> Accepted:
        """Submit an order under the caller's id; the same order again gets the same answer."""
        await acceptance.put(workflow, TaskId(order_id), body, caller)
        return accepted(TaskId(order_id), response)

    @router.get(
        "/{order_id}",
        responses=documented_answer(order_example(workflow)) | documented_problems(404, 422, 503),
    )
    async def show(order_id: OrderId, caller: AdmittedCaller) -> OrderView:
        """Tell how far an order is."""
        return OrderView.of(await acceptance.find(workflow, TaskId(order_id), caller))

    return router
