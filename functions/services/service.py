"""What sample services share: their resources, a row each, and the routes of those that take bookings."""

# ruff: noqa: I002 - FastAPI needs the body's model itself, which is the service's and has no global name

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient
from fastapi import APIRouter, Body, Path, Response
from pydantic import BaseModel

from functions.pattern.definition import Json
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import TASK_ID_PATTERN
from functions.pattern.ports import Clock
from functions.web.problems import ProblemError

#: The path below which all sample services are served.
SERVICES_PATH = "/api/services"

#: Names become names of tables; these are the state store's own, or have a meaning in the path.
_NAME = re.compile("[a-z]{3,32}")
_TAKEN = frozenset({"tasks", "rejected", "faults"})

ResourceId = Annotated[str, Path(pattern=TASK_ID_PATTERN)]


class Resources:
    """Stores resources as JSON objects in a table; one that is undone stays as a tombstone."""

    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def put(self, resource_id: str, content: Json) -> HTTPStatus:
        """Create the resource, or replace it: 201, 204, or 410 when it was undone."""
        row = _key(resource_id) | {"content": json.dumps(content)}
        try:
            await self._table.create_entity(row)
        except ResourceExistsError:
            return await self._replace(row)
        return HTTPStatus.CREATED

    async def _replace(self, row: dict[str, str]) -> HTTPStatus:
        """Replace the resource, unless it is undone, even if that happens at the same moment."""
        while True:
            there = await self._table.get_entity(row["PartitionKey"], row["RowKey"])
            if "undone_at" in there:
                return HTTPStatus.GONE
            with suppress(ResourceModifiedError):
                await self._table.update_entity(
                    row,
                    mode=UpdateMode.REPLACE,
                    etag=there.metadata["etag"],
                    match_condition=MatchConditions.IfNotModified,
                )
                return HTTPStatus.NO_CONTENT

    async def delete(self, resource_id: str) -> None:
        """Undo the resource, even before it is created: from now on, the tombstone refuses it."""
        tombstone = _key(resource_id) | {"undone_at": self._clock.now()}
        await self._table.upsert_entity(tombstone, mode=UpdateMode.MERGE)

    async def find(self, resource_id: str) -> Json | None:
        """Read the resource, with `undone_at` (UTC, or None); None if it never existed."""
        try:
            row = await self._table.get_entity(resource_id, resource_id)
        except ResourceNotFoundError:
            return None
        content: dict[str, Any] = json.loads(row.get("content", "{}"))
        return content | {"undone_at": row.get("undone_at")}


@dataclass(frozen=True, slots=True)
class SampleService:
    """One sample service: its name in the path, and what adds its routes to a router for that path.

    Raises `DefinitionError` for a name that its table can't have.
    """

    name: str
    add_routes: Callable[[APIRouter, Resources], None]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise DefinitionError(
                f"sample service '{self.name}': its name must be 3 to 32 letters from a to z, and neither of"
                f" {', '.join(sorted(_TAKEN))}"
            )

    @property
    def table(self) -> str:
        """The table with the service's resources."""
        return self.name.capitalize()


def booking_service[Order: BaseModel](
    name: str, order_model: type[Order], confirm: Callable[[str, Order], Json] = lambda _id, _order: {}
) -> SampleService:
    """Make a service of bookings: `PUT` makes one, `GET` shows it, `DELETE` undoes it.

    `confirm` tells what the service adds to an order, by the booking's id: a number, a price, a vehicle. It
    is pure, so that a repeated order gets the same confirmation. A `PUT` is answered without content whether
    it creates or replaces, so that callers read the confirmation with `GET` in both cases.
    """
    model: Any = order_model

    def add_routes(router: APIRouter, bookings: Resources) -> None:
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
            """Show the booking, even when it is undone."""
            found = await bookings.find(resource_id)
            if found is None:
                raise ProblemError(HTTPStatus.NOT_FOUND, "There is no such resource.")
            return found

        @router.delete("/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
        async def delete(resource_id: ResourceId) -> None:
            """Undo the booking, for good."""
            await bookings.delete(resource_id)

    return SampleService(name, add_routes)


def _key(resource_id: str) -> dict[str, str]:
    return {"PartitionKey": resource_id, "RowKey": resource_id}
