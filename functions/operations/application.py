"""The operators' FastAPI application."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, FastAPI

from functions.operations.examples import FIGURES
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.web.application import bare_application
from functions.web.bodies import BodyLimit, BodyLimits
from functions.web.callers import Role
from functions.web.guard import GUARDED, Guard
from functions.web.openapi import documented_answer
from functions.web.same_origin import SameOrigin

#: An operator's body is a reason, of 500 characters at most.
_MOST_BODY_BYTES = 4 * 1024


def operators_application(store: StoreFigures, bus: BusFigures, *routers: APIRouter, guard: Guard) -> FastAPI:
    """Serve what operators ask for, below `/api/ops`."""
    app = bare_application("Operations", responses=GUARDED)
    app.add_middleware(BodyLimits, limit=BodyLimit(_MOST_BODY_BYTES))
    app.add_middleware(SameOrigin)
    guard.protect(app, reading={Role.OPERATOR}, writing={Role.OPERATOR})
    for router in routers:
        app.include_router(router)

    @app.get("/api/ops/figures", tags=["operations"], responses=documented_answer(FIGURES))
    async def figures() -> dict[str, dict[str, int]]:
        """Count what this instance has asked of its services since it started."""
        return {"table_storage": asdict(store), "service_bus": asdict(bus)}

    return app
