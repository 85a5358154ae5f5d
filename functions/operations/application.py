"""The operators' FastAPI application."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, FastAPI

from functions.figures import BusFigures, StoreFigures
from functions.http.bodies import BodyLimits
from functions.http.problems import install_problems

#: An operator's body is a reason, of 500 characters at most.
_MOST_BODY_BYTES = 4 * 1024


def operators_application(store: StoreFigures, bus: BusFigures, *routers: APIRouter) -> FastAPI:
    """Serve what operators ask for, below `/api/ops`."""
    app = FastAPI(title="Operations", docs_url=None, redoc_url=None, openapi_url=None)
    install_problems(app)
    app.add_middleware(BodyLimits, most_bytes=_MOST_BODY_BYTES)
    for router in routers:
        app.include_router(router)

    @app.get("/api/ops/figures")
    async def figures() -> dict[str, dict[str, int]]:
        """Count what this instance has asked of its services since it started."""
        return {"table_storage": asdict(store), "service_bus": asdict(bus)}

    return app
