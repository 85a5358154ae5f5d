"""The routes by which fault switches are set and ended."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path

from functions.pattern.identity import TASK_ID_PATTERN
from functions.services.fault_table import Faults
from functions.services.faults import Fault, FaultView
from functions.services.service import SERVICES_PATH
from functions.web.problems import ProblemError

#: A resource's id, or `*` for every resource of the service.
FaultyId = Annotated[str, Path(pattern=rf"^\*$|{TASK_ID_PATTERN}")]


def fault_routes(services: Collection[str], faults: Faults) -> APIRouter:
    """Serve the fault switches of the services that are named."""
    router = APIRouter(prefix=SERVICES_PATH)

    def check(service: str) -> None:
        if service not in services:
            raise ProblemError(HTTPStatus.NOT_FOUND, f"The services are {', '.join(services)}.")

    @router.get("/faults")
    async def show() -> list[FaultView]:
        """Show the faults that are set."""
        return await faults.standing()

    @router.put("/{service}/faults/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def put(service: str, resource_id: FaultyId, fault: Fault) -> None:
        """Set the fault in place of the one that is set, if any."""
        check(service)
        await faults.set(service, resource_id, fault)

    @router.delete("/{service}/faults/{resource_id}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(service: str, resource_id: FaultyId) -> None:
        """End the fault."""
        check(service)
        await faults.end(service, resource_id)

    return router
