"""The resources of a sample service: a row each."""

# ruff: noqa: I002 - FastAPI needs the body's model itself, which is the service's and has no global name

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient
from fastapi import APIRouter, Body, Path, Response

from functions.core.step_definition import Json
from functions.http.problems import ProblemError
from functions.messaging.message_format import TASK_ID_PATTERN
from functions.services.service import SampleService

#: The pattern of the id of a resource: a task's id and its run id, or another id.
RESOURCE_ID_PATTERN = rf"^{TASK_ID_PATTERN.strip('^$')}(\.[0-9a-f]{{8}})?$"


class Resources:
    """Resources as JSON objects in a table, undone ones as tombstones; one partition for each task id."""

    def __init__(self, table: TableClient, now: Callable[[], datetime]) -> None:
        self._table = table
        self._now = now

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
        tombstone = _key(resource_id) | {"undone_at": self._now()}
        await self._table.upsert_entity(tombstone, mode=UpdateMode.MERGE)

    async def find(self, resource_id: str) -> Json | None:
        """Read the resource with `undone_at` (UTC, or None); an id without birth finds the latest one."""
        key, has_birth = _key(resource_id), "." in resource_id
        query = "PartitionKey eq @PartitionKey" + (" and RowKey eq @RowKey" if has_birth else "")
        rows = [row async for row in self._table.query_entities(query, parameters=key)]
        row = max(rows, key=lambda row: str(row.metadata["timestamp"]), default=None)
        if row is None:
            return None
        content: dict[str, Any] = json.loads(row.get("content", "{}"))
        return content | {"undone_at": row.get("undone_at")}


def _key(resource_id: str) -> dict[str, str]:
    return {"PartitionKey": resource_id.partition(".")[0], "RowKey": resource_id}


ResourceId = Annotated[str, Path(pattern=RESOURCE_ID_PATTERN)]


def add_booking_routes(router: APIRouter, bookings: Resources, service: SampleService) -> None:
    """Add the routes of a sample service."""
    model: Any = service.model

    @router.put("/{resource_id}")
    async def put(resource_id: ResourceId, order: Annotated[model, Body()]) -> Response:
        """Make the booking: 201, or 204 when it exists and is replaced."""
        content = order.model_dump(mode="json") | service.confirm(resource_id, order)
        status = await bookings.put(resource_id, content)
        if status is HTTPStatus.GONE:
            raise ProblemError(status, "This was undone and can't be made again.")
        return Response(status_code=status)

    @router.get("/{resource_id}")
    async def get(resource_id: ResourceId) -> Json:
        """Show the booking, even when it is undone; by a task's id alone, the one that it made last."""
        found = await bookings.find(resource_id) or service.default
        if found is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "There is no such resource.")
        return found

    if service.default is not None:
        return  # such a resource always exists

    @router.delete("/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(resource_id: ResourceId) -> None:
        """Undo the booking permanently."""
        await bookings.delete(resource_id)
