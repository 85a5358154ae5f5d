"""The callers' FastAPI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from pydantic import BaseModel

from functions.api.acceptance import Acceptance
from functions.api.batch_routes import batch_path, batch_routes
from functions.api.routes import resource_routes
from functions.api.submissions import MAX_BATCH_BYTES
from functions.http.bodies import BodyLimits
from functions.http.problems import install_problems
from functions.pattern.messages import MAX_PAYLOAD_BYTES
from functions.pattern.registry import Registry


class Health(BaseModel):
    """The application answers, and so does its state store."""

    status: str = "healthy"


def callers_application(
    registry: Registry, acceptance: Acceptance, check_store: Callable[[], Awaitable[None]]
) -> FastAPI:
    """Serve a resource for each workflow, and the application's health."""
    app = FastAPI(
        title="Scheduler Agent Supervisor", version="1.0.0", docs_url=None, redoc_url=None, openapi_url=None
    )
    install_problems(app)
    batches = {("POST", batch_path(workflow)): MAX_BATCH_BYTES for workflow in registry}
    app.add_middleware(BodyLimits, most_bytes=MAX_PAYLOAD_BYTES, larger=batches)
    for workflow in registry:
        app.include_router(resource_routes(workflow, acceptance))
        app.include_router(batch_routes(workflow, acceptance))

    @app.get("/api/health", tags=["health"])
    async def health() -> Health:
        """Tell whether orders can be taken and followed."""
        await check_store()
        return Health()

    return app
