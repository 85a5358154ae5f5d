"""The operators' FastAPI application."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import FastAPI

from functions.figures import BusFigures, StoreFigures
from functions.http.problems import install_problems


def operators_application(store: StoreFigures, bus: BusFigures) -> FastAPI:
    """Serve what operators ask for, below `/api/ops`."""
    app = FastAPI(title="Operations", docs_url=None, redoc_url=None, openapi_url=None)
    install_problems(app)

    @app.get("/api/ops/figures")
    async def figures() -> dict[str, dict[str, int]]:
        """Count what this instance has asked of its services since it started."""
        return {"table_storage": asdict(store), "service_bus": asdict(bus)}

    return app
