"""Sample services over tables in memory: those of a workflow, or parcels, which only the tests have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.services.sample_application import services_application
from functions.services.service import SampleService
from functions.workflow import Json
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.simulated_table import SimulatedTable

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


class Bench:
    """Services in one process; another one may serve the same tables."""

    def __init__(self, services: Collection[SampleService] = PARCELS, other: Bench | None = None) -> None:
        self.clock = FakeClock()
        new = defaultdict[str, SimulatedTable](SimulatedTable)
        self.tables: defaultdict[str, SimulatedTable] = new if other is None else other.tables
        self.client = AsgiClient(services_application(services, self.tables.__getitem__, self.clock.now))

    async def set(self, fault: dict[str, Any], switch: str = SWITCH) -> None:
        """Set a fault."""
        assert (await self.client.put(switch, fault)).status == 204

    async def call(self, method: str, path: str = PARCEL) -> int:
        """Put, get or delete a parcel, and return the status."""
        return (await self.client.send(method, path, ORDER if method == "PUT" else b"")).status

    async def show(self, path: str = PARCEL) -> Any:
        """Return a resource, or the faults that are set."""
        return (await self.client.get(path)).json
