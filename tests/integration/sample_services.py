"""The sample services on tables of their own, and an order for each of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from azure.data.tables.aio import TableClient, TableServiceClient

from functions.services.application import SERVICE_TABLES, services_application
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock

TablesOf = Callable[[str], TableClient]

SERVICES = "/api/services"
PACKAGE = f"{SERVICES}/packages/task-1"
SWITCH = f"{SERVICES}/packages/faults/task-1"

#: What each service takes.
ORDERS: dict[str, dict[str, Any]] = {
    "payments": {"customer": "C-1042", "amount": "9.80", "currency": "EUR"},
    "packages": {"weight_kg": 2.5, "size": "small", "tag": "fragile"},
    "transports": {"weight_kg": 2.5, "distance_km": "41.2"},
    "drones": {
        "weight_kg": 2.5,
        "pickup": {"latitude": 47.6, "longitude": -122.3},
        "pickup_at": "2026-11-21T12:00:00Z",
    },
    "deliveries": {
        "account": "A-7",
        "tracking_number": "PK1",
        "drone": "drone-01",
        "carrier": None,
        "pickup": {"latitude": 47.6, "longitude": -122.3},
        "pickup_at": "2026-11-21T12:00:00Z",
        "dropoff": {"latitude": 47.7, "longitude": -122.2},
        "expedited": False,
    },
}


async def make_tables(service: TableServiceClient) -> TablesOf:
    """Make the services' tables under names that nobody else uses, and give the way to them."""
    prefix = f"S{uuid.uuid4().hex}"
    await asyncio.gather(*(service.create_table(prefix + name) for name in SERVICE_TABLES))
    return lambda name: service.get_table_client(prefix + name)


class Bench:
    """The services as one process serves them, beside others on the same tables."""

    def __init__(self, tables: TablesOf) -> None:
        self.clock = FakeClock()
        self.client = AsgiClient(services_application(tables, self.clock))

    async def set(self, fault: dict[str, Any], switch: str = SWITCH) -> None:
        """Set a fault."""
        assert (await self.client.put(switch, fault)).status == 204

    async def put(self, path: str = PACKAGE) -> int:
        """Order a package, and give the status."""
        return (await self.client.put(path, ORDERS["packages"])).status

    async def get(self, path: str = PACKAGE) -> int:
        """Look at a package, and give the status."""
        return (await self.client.get(path)).status

    async def delete(self, path: str = PACKAGE) -> int:
        """Undo a package, and give the status."""
        return (await self.client.delete(path)).status
