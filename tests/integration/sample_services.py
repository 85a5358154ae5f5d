"""Sample services on separate tables: those of a workflow, or parcels, which only the tests have."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection
from typing import Annotated, Any

from azure.data.tables.aio import TableClient, TableServiceClient
from pydantic import BaseModel, ConfigDict, Field

from functions.services.application import services_application
from functions.services.service import SampleService, service_tables
from functions.workflow import Json
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock

TablesOf = Callable[[str], TableClient]

SERVICES = "/api/services"
PARCEL = f"{SERVICES}/parcels/task-1"
SWITCH = f"{SERVICES}/parcels/faults/task-1"

#: What the parcel service accepts, and what it confirms.
ORDER: dict[str, Any] = {"weight_kg": 2.5}
CONFIRMED: dict[str, Any] = {"number": "P-task-1"}


class Parcel(BaseModel):
    """The parcel of a request."""

    model_config = ConfigDict(extra="forbid")

    weight_kg: Annotated[float, Field(gt=0)]


def _number(parcel_id: str, _parcel: Parcel) -> Json:
    return {"number": f"P-{parcel_id}"}


PARCELS = (SampleService("parcels", Parcel, _number), SampleService("letters", Parcel))


async def make_tables(service: TableServiceClient, services: Collection[SampleService] = PARCELS) -> TablesOf:
    """Create the services' tables under unique names, and return the connection to them."""
    prefix = f"S{uuid.uuid4().hex}"
    await asyncio.gather(*(service.create_table(prefix + name) for name in service_tables(services)))
    return lambda name: service.get_table_client(prefix + name)


async def serve(service: TableServiceClient, services: Collection[SampleService] = PARCELS) -> AsgiClient:
    """Serve sample services on separate tables."""
    return AsgiClient(services_application(services, await make_tables(service, services), FakeClock().now))


class Bench:
    """The services in one process; others may serve the same tables."""

    def __init__(self, tables: TablesOf) -> None:
        self.clock = FakeClock()
        self.client = AsgiClient(services_application(PARCELS, tables, self.clock.now))

    async def set(self, fault: dict[str, Any], switch: str = SWITCH) -> None:
        """Set a fault."""
        assert (await self.client.put(switch, fault)).status == 204

    async def put(self, path: str = PARCEL) -> int:
        """Order a parcel, and return the status."""
        return (await self.client.put(path, ORDER)).status

    async def get(self, path: str = PARCEL) -> int:
        """Read a parcel, and return the status."""
        return (await self.client.get(path)).status

    async def delete(self, path: str = PARCEL) -> int:
        """Undo a parcel, and return the status."""
        return (await self.client.delete(path)).status
