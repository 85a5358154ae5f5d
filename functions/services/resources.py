"""The resources of a sample service, one row each."""

# ruff: noqa: I002 - FastAPI cannot find the body's model by its name, because it is a local variable

import json
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Response

from functions.core.definition.step_definition import Json
from functions.http.problems import ProblemError
from functions.messaging.message_format import TASK_ID_PATTERN
from functions.services.service import SampleService
from functions.storage.index_pages import every_page
from functions.storage.table_contract import RefusedChanges, RowChange, RowQuery, StorageError, Table, write

#: The pattern of the id of a resource: a task's id and its run id, or another id.
RESOURCE_ID_PATTERN = rf"^{TASK_ID_PATTERN.strip('^$')}(\.[0-9a-f]{{8}})?$"


class Resources:
    """Resources as JSON objects in a table, undone ones as tombstones; one partition for each task id."""

    def __init__(self, table: Table, now: Callable[[], datetime]) -> None:
        self._table, self._now = table, now

    async def put(self, resource_id: str, content: Json) -> HTTPStatus:
        """Create the resource, or replace it: 201, 204, or 410 when it was undone."""
        task, row = _task_of(resource_id), {"Content": json.dumps(content), "ChangedAt": self._time()}
        change = RowChange("insert", resource_id, row)
        while isinstance(refused := await self._table.send(task, [change]), RefusedChanges):
            there = await self._table.read(task, resource_id) if refused.is_conflict else None
            if there is None:
                raise StorageError(f"resource {resource_id}: HTTP {refused.status} {refused.text}")
            if "UndoneAt" in there:
                return HTTPStatus.GONE
            change = RowChange("update", resource_id, row, str(there["odata.etag"]))
        return HTTPStatus.CREATED if change.kind == "insert" else HTTPStatus.NO_CONTENT

    async def delete(self, resource_id: str) -> None:
        """Undo the resource. Its tombstone also prevents a later creation."""
        tombstone = {"UndoneAt": self._time(), "ChangedAt": self._time()}
        change = RowChange("merge", resource_id, tombstone)
        await write(self._table, _task_of(resource_id), [change])

    async def find(self, resource_id: str) -> Json | None:
        """Return the resource with `undone_at` (UTC, or None); an id without run id finds the latest one."""
        task, row = _task_of(resource_id), None
        if resource_id != task:
            row = await self._table.read(task, resource_id)
        else:
            pages = every_page(self._table, task, RowQuery(task, f"{task}~"))
            rows = [row async for page in pages for row in page.rows]
            row = max(rows, key=lambda row: str(row["ChangedAt"]), default=None)
        if row is None:
            return None
        content: dict[str, Any] = json.loads(row.get("Content", "{}"))
        return content | {"undone_at": row.get("UndoneAt")}

    def _time(self) -> str:
        return f"{self._now():%Y-%m-%dT%H:%M:%S.%fZ}"


def _task_of(resource_id: str) -> str:
    return resource_id.partition(".")[0]


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
            raise ProblemError(status, "The resource was undone and cannot be created again.")
        return Response(status_code=status)

    @router.get("/{resource_id}")
    async def get(resource_id: ResourceId) -> Json:
        """Return the booking, also after its undo. A task's id alone finds its newest booking."""
        found = await bookings.find(resource_id) or service.default
        if found is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "Resource not found.")
        return found

    if service.default is not None:
        return  # such a resource always exists

    @router.delete("/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(resource_id: ResourceId) -> None:
        """Undo the booking permanently."""
        await bookings.delete(resource_id)
