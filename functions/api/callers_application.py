"""The callers' FastAPI application: a resource for each workflow, batches, events, and the health check."""

# ruff: noqa: I002 - FastAPI reads the annotations of routes at run time

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

from functions.api.batch_routes import add_batch_routes
from functions.api.event_routes import EVENT_PATHS, Events, add_event_routes
from functions.api.order_routes import add_order_routes, path_of
from functions.api.orders import Orders, as_problem
from functions.core.workflow_definition import UnfitOrderError, WorkflowRegistry
from functions.messaging.message_format import MOST_PAYLOAD_BYTES
from functions.messaging.senders import SendError
from functions.storage.table_contract import TransientStorageError
from functions.web.access import GUARDED, Access, Gate, Guard
from functions.web.application import bare_application
from functions.web.bodies import MOST_DEPTH, BodyLimit, BodyLimits
from functions.web.callers import Role
from functions.web.problems import answer_to, documented_problems

_HEALTH = "/api/health"
_MOST_BATCH_BYTES = 1024 * 1024
#: Seconds for which the health of the store is remembered.
_HEALTH_SECONDS = 1.0


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
    intake: Gate | None = None,
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
    guard.protect(app, access, BodyLimits(BodyLimit(MOST_PAYLOAD_BYTES), larger), intake)
    for kind in (TransientStorageError, SendError, UnfitOrderError):
        app.add_exception_handler(kind, _answer)
    for workflow in newest:
        add_order_routes(app, workflow, orders)
        add_batch_routes(app, workflow, orders)
        add_event_routes(app, workflow, events)
    store = StoreHealth(check_store)

    @app.get(_HEALTH, tags=["health"], responses=documented_problems(503), openapi_extra={"security": []})
    async def health() -> Health:
        """Return whether orders can be accepted and read, at most a second ago."""
        await store.check()
        return Health()

    return app


async def _answer(request: Request, error: Exception) -> Response:
    return answer_to(as_problem(error), request.scope)


class StoreHealth:
    """The health of the state store, which is checked at most once a second for all requests."""

    def __init__(self, check: Callable[[], Awaitable[object]]) -> None:
        self._check_store = check
        self._checking: asyncio.Task[str | None] | None = None
        self._next_at = 0.0

    async def check(self) -> None:
        """Raise `TransientStorageError` if the state store does not answer."""
        now = asyncio.get_running_loop().time()
        if self._checking is None or (self._checking.done() and now >= self._next_at):
            self._next_at = now + _HEALTH_SECONDS
            self._checking = asyncio.create_task(self._checked())
        fault = await asyncio.shield(self._checking)
        if fault is not None:
            raise TransientStorageError(fault)

    async def _checked(self) -> str | None:
        try:
            await self._check_store()
        except TransientStorageError as error:
            return str(error)
        return None
