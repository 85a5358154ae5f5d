"""What the sample services have in common: `PUT` makes a resource, `GET` shows it, `DELETE` undoes it."""

# ruff: noqa: I002 - FastAPI needs the body's model itself, which is the service's and has no global name

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Response
from pydantic import BaseModel

from functions.pattern.definition import Json
from functions.pattern.identity import TASK_ID_PATTERN
from functions.services.resources import Resources
from functions.web.problems import ProblemError

#: Where all sample services are served.
SERVICES_PATH = "/api/services"

ResourceId = Annotated[str, Path(pattern=TASK_ID_PATTERN)]


@dataclass(frozen=True, slots=True)
class SampleService[Order: BaseModel]:
    """One sample service: its name in the path, its table, and what can be ordered of it.

    `confirm` tells what the service adds to an order, by the resource's id: a number, a price, a vehicle.
    It is pure, so that a repeated order is confirmed as it was the first time.
    """

    name: str
    table: str
    order: type[Order]
    confirm: Callable[[str, Order], Json]


def service_routes[Order: BaseModel](service: SampleService[Order], resources: Resources) -> APIRouter:
    """Serve the resources of one service below its name.

    A `PUT` is answered without content whether it makes or replaces, so that its caller learns from `GET`
    what was confirmed, the same way in both cases.
    """
    router = APIRouter(prefix=f"{SERVICES_PATH}/{service.name}")
    model: Any = service.order

    @router.put("/{resource_id}")
    async def put(resource_id: ResourceId, order: Annotated[model, Body()]) -> Response:
        """Make the resource: 201, or 204 when it is there and is replaced."""
        content = order.model_dump(mode="json") | service.confirm(resource_id, order)
        status = await resources.put(resource_id, content)
        if status is HTTPStatus.GONE:
            raise ProblemError(status, "This was undone, and can't be made any more.")
        return Response(status_code=status)

    @router.get("/{resource_id}")
    async def get(resource_id: ResourceId) -> Json:
        """Show the resource, also when it is undone."""
        found = await resources.find(resource_id)
        if found is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "There is no such resource.")
        return found

    @router.delete("/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(resource_id: ResourceId) -> None:
        """Undo the resource, for good."""
        await resources.delete(resource_id)

    return router
