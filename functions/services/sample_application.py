"""The FastAPI application of the sample services, with their fault switches."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.core.json_values import MOST_TEXT_BYTES
from functions.http.application import bare_application
from functions.http.bodies import BodyLimit, ReadRoute
from functions.http.problems import ProblemError, install_problems
from functions.messaging.message_format import TASK_ID_PATTERN
from functions.services.faults import Fault, Faults, FaultView, FaultyCalls
from functions.services.resources import Resources, add_booking_routes
from functions.services.service import FAULTS_TABLE, SERVICES_PATH, SampleService
from functions.storage.table_contract import Table

FaultyId = Annotated[str, Path(pattern=rf"^\*$|{TASK_ID_PATTERN}")]


class CheckedBodies:
    """Reads and checks the bodies of requests for `ReadRoute`, as `Guard` does in the other applications."""

    def __init__(self, app: ASGIApp, *, limit: BodyLimit) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == "http":
            await self._limit.read(scope, Headers(scope=scope), receive)
        await self._app(scope, receive, send)


def services_application(
    services: Collection[SampleService], table: Callable[[str], Table], now: Callable[[], datetime]
) -> FastAPI:
    """Serve the sample services; `table` returns the table of that name."""
    app = bare_application("Sample services")
    names = [service.name for service in services]
    faults = Faults(table(FAULTS_TABLE), now)
    app.add_middleware(CheckedBodies, limit=BodyLimit(MOST_TEXT_BYTES))
    app.add_middleware(FaultyCalls, services=names, faults=faults)
    install_problems(app)
    app.include_router(_fault_routes(names, faults))
    for service in services:
        router = APIRouter(prefix=f"{SERVICES_PATH}/{service.name}", route_class=ReadRoute)
        add_booking_routes(router, Resources(table(service.table), now), service)
        app.include_router(router)
    return app


def _fault_routes(services: Collection[str], faults: Faults) -> APIRouter:
    router = APIRouter(prefix=SERVICES_PATH, route_class=ReadRoute)

    def check(service: str) -> None:
        if service not in services:
            raise ProblemError(HTTPStatus.NOT_FOUND, f"Service not found: use one of {', '.join(services)}.")

    @router.get("/faults")
    async def show() -> list[FaultView]:
        """Show the faults that are set."""
        return await faults.standing(services)

    @router.put("/{service}/faults/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def put(service: str, resource_id: FaultyId, fault: Fault) -> None:
        """Set the fault. It replaces an earlier one."""
        check(service)
        await faults.set(service, resource_id, fault)

    @router.delete("/{service}/faults/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(service: str, resource_id: FaultyId) -> None:
        """End the fault."""
        check(service)
        await faults.end(service, resource_id)

    return router
