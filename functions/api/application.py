"""The callers' FastAPI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from pydantic import BaseModel

from functions.api.acceptance import Acceptance
from functions.api.batch_routes import batch_path, batch_routes
from functions.api.routes import resource_routes
from functions.api.submissions import MAX_BATCH_BYTES
from functions.pattern.definition import Registry
from functions.pattern.messages import MAX_PAYLOAD_BYTES
from functions.web.application import bare_application
from functions.web.bodies import BodyLimit, BodyLimits
from functions.web.callers import Role
from functions.web.guard import GUARDED, Guard
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems
from functions.web.strict_json import MOST_DEPTH

_HEALTH = "/api/health"

#: A batch holds a list in an object; the orders in it may be as deep as if they had come alone.
_BATCH_LIMIT = BodyLimit(MAX_BATCH_BYTES, MOST_DEPTH + 2)


class Health(BaseModel):
    """The application answers, and so does its state store."""

    status: str = "healthy"


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
        app.include_router(resource_routes(workflow, acceptance))
        app.include_router(batch_routes(workflow, acceptance))

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
