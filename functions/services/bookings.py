"""The routes of a sample service that takes bookings; loaded with the first request to a sample service."""

# ruff: noqa: I002 - FastAPI needs the body's model itself, which is the service's and has no global name

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Response
from pydantic import BaseModel

from functions.pattern.definition import Json
from functions.services.resources import RESOURCE_ID_PATTERN, Resources
from functions.web.problems import ProblemError

ResourceId = Annotated[str, Path(pattern=RESOURCE_ID_PATTERN)]


def add_booking_routes[Order: BaseModel](
    router: APIRouter, bookings: Resources, order_model: type[Order], confirm: Callable[[str, Order], Json]
) -> None:
    """Add the routes of `booking_service`."""
    model: Any = order_model

    @router.put("/{resource_id}")
    async def put(resource_id: ResourceId, order: Annotated[model, Body()]) -> Response:
        """Make the booking: 201, or 204 when it exists and is replaced."""
        content = order.model_dump(mode="json") | confirm(resource_id, order)
        status = await bookings.put(resource_id, content)
        if status is HTTPStatus.GONE:
            raise ProblemError(status, "This was undone and can't be made again.")
        return Response(status_code=status)

    @router.get("/{resource_id}")
    async def get(resource_id: ResourceId) -> Json:
        """Show the booking, even when it is undone; by a task's id alone, the one that it made last."""
        found = await bookings.find(resource_id)
        if found is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "There is no such resource.")
        return found

    @router.delete("/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(resource_id: ResourceId) -> None:
        """Undo the booking, for good."""
        await bookings.delete(resource_id)
