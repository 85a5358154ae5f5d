"""The callers' application: a resource for each workflow, events, the health check, and the intake limit."""

# ruff: noqa: I002 - FastAPI reads the annotations of routes at run time

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.types import Scope

from functions.api.batch_routes import add_batch_routes
from functions.api.event_routes import EVENT_PATHS, Events, add_event_routes
from functions.api.order_routes import add_order_routes, path_of
from functions.api.orders import Orders, as_problem
from functions.core.definition.workflow_definition import UnfitOrderError, WorkflowRegistry
from functions.http.access import GUARDED, Access, Guard, RequestCheck, Role
from functions.http.application import Cached, bare_application
from functions.http.bodies import MOST_DEPTH, BodyLimit
from functions.http.problems import ProblemError, documented_problems, handle_errors
from functions.messaging.intake_measurement import IntakeBounds, IntakeMeasurement
from functions.messaging.message_format import MOST_PAYLOAD_BYTES
from functions.messaging.received_messages import NotHandledError
from functions.messaging.senders import SendError
from functions.storage.table_contract import StorageError, TransientStorageError

_HEALTH = "/api/health"
_MOST_BATCH_BYTES = 1024 * 1024
#: Seconds for which the health of the store is remembered, and between two reads of the intake.
_HEALTH_SECONDS, _READ_INTERVAL = 1.0, 3.0


class Health(BaseModel):
    """The application and its state store answer."""

    status: str = "healthy"


def callers_application(
    registry: WorkflowRegistry,
    orders: Orders,
    events: Events,
    check_store: Callable[[], Awaitable[object]],
    *,
    guard: Guard,
    intake: RequestCheck | None = None,
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
    larger = {("POST", f"{path_of(workflow)}/batch"): batches for workflow in newest}
    guard.protect(app, access, BodyLimit(MOST_PAYLOAD_BYTES, larger=larger), intake)
    unavailable = (TransientStorageError, SendError, NotHandledError)
    handle_errors(app, *unavailable, UnfitOrderError, as_problem=as_problem)
    for workflow in newest:
        add_order_routes(app, workflow, orders)
        add_batch_routes(app, workflow, orders)
        add_event_routes(app, workflow, events)

    async def fault() -> TransientStorageError | None:
        try:
            await check_store()
        except TransientStorageError as error:
            return error
        return None

    store = Cached(fault, _HEALTH_SECONDS)

    @app.get(_HEALTH, tags=["health"], responses=documented_problems(503), openapi_extra={"security": []})
    async def health() -> Health:
        """Return whether orders can be accepted and read, at most a second ago."""
        if error := await store.get():
            raise error
        return Health()

    return app


class IntakeLimit:
    """Rejects new orders by the newest measurement. No request waits for a read. `now` is in UTC."""

    def __init__(
        self,
        read: Callable[[], Awaitable[IntakeMeasurement | None]],
        bounds: IntakeBounds,
        now: Callable[[], datetime],
    ) -> None:
        self._read, self._bounds, self._now = read, bounds, now
        self._newest: IntakeMeasurement | None = None
        self._reading: asyncio.Task[None] | None = None
        self._next_at = 0.0

    def check(self, scope: Scope) -> None:
        """Raise `ProblemError` 429 for a request with new orders while the backlog is too large."""
        if scope["method"] not in {"POST", "PUT"} or EVENT_PATHS.fullmatch(scope["path"]):
            return
        time = asyncio.get_running_loop().time()
        if time >= self._next_at and (self._reading is None or self._reading.done()):
            self._next_at = time + _READ_INTERVAL
            self._reading = asyncio.create_task(self._read_newest())
        seconds = 0 if self._newest is None else self._newest.retry_after(self._bounds, self._now())
        if seconds:
            text = "Too many orders of all callers wait. Try again later, with the same id."
            headers = {"Retry-After": str(seconds)}
            status = HTTPStatus.TOO_MANY_REQUESTS
            raise ProblemError(status, text, headers=headers, kind="too-many-orders-wait")

    async def _read_newest(self) -> None:
        try:
            self._newest = await self._read()
        except StorageError:
            return  # the last measurement counts until it is too old
