"""The routes of single orders, and the models of their bodies, with examples. Times are UTC."""

# ruff: noqa: I002 - FastAPI reads the annotations of routes at run time, and the models are made here

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Path, Request, Response
from pydantic import BaseModel, Field, SkipValidation, create_model

from functions.api.order_status import Status, cancel_order, read_status
from functions.api.orders import Envelope, Orders
from functions.core.definition.workflow_definition import Workflow
from functions.http.access import caller_of
from functions.http.problems import documented_problems
from functions.messaging.message_format import TaskId

EXAMPLE_ID = "my-id-1"

TaskInPath = Annotated[
    TaskId, Path(alias="id", description="The id that the caller chose or received", examples=[EXAMPLE_ID])
]


def submission_model(workflow: Workflow[Any]) -> type[BaseModel]:
    """Return the model of a single order."""
    return create_model(f"{workflow.payload.__name__}Submission", __base__=(workflow.payload, Envelope))


class Accepted(BaseModel):
    """The order is accepted; `location` has its status."""

    id: Annotated[str, Field(examples=[EXAMPLE_ID])]
    location: Annotated[str, Field(examples=[f"/api/{{resource}}/{EXAMPLE_ID}"])]


def path_of(workflow: Workflow[Any]) -> str:
    """Return the path of the orders of a workflow."""
    return f"/api/{workflow.resource}"


# The routes are those of the application itself: an included router takes three times as long.
def add_order_routes(app: FastAPI, workflow: Workflow[Any], orders: Orders) -> None:
    """Add the routes of the orders of a workflow."""
    # The OpenAPI document shows the model. `Orders.draft` validates the order.
    submission: Any = Annotated[submission_model(workflow), SkipValidation]
    noun, within = workflow.noun, workflow.cancel_within
    processed = "not after it was" if within is None else f"up to {within:g} seconds after it was"

    def accepted(task: str, response: Response) -> Accepted:
        location = f"{path_of(workflow)}/{task}"
        response.headers["Location"] = location
        return Accepted(id=task, location=location)

    @app.post(
        path_of(workflow),
        tags=[workflow.resource],
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(400, 413, 415, 422, 503),
        description=f"Submit a new {noun}, which gets an id",
    )
    async def submit(sent: Annotated[submission, Body()], request: Request, response: Response) -> Accepted:
        return accepted(await orders.submit_one(workflow, None, sent, caller_of(request)), response)

    @app.put(
        f"{path_of(workflow)}/{{id}}",
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
        f"{path_of(workflow)}/{{id}}",
        tags=[workflow.resource],
        responses=documented_problems(404, 422, 503),
        description=f"Show the status of this {noun}, and its output",
    )
    async def show(task: TaskInPath, request: Request) -> Status:
        return await read_status(orders.storage, workflow, task, caller_of(request))

    @app.delete(
        f"{path_of(workflow)}/{{id}}",
        tags=[workflow.resource],
        status_code=HTTPStatus.ACCEPTED,
        responses=documented_problems(404, 409, 422, 503),
        description=f"Cancel this {noun}: every effect is undone\n\nPossible until it has ended, and"
        f" {processed} processed; 409 has the reason otherwise. Its state is `Compensated` at the end. A"
        " repeated request gets the same answer.",
    )
    async def cancel(task: TaskInPath, request: Request, response: Response) -> Accepted:
        await cancel_order(orders.storage, workflow, task, caller_of(request))
        return accepted(task, response)
