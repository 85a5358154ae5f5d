"""Sample services: their names, and the limits of bodies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import pytest
from azure.data.tables.aio import TableClient
from pydantic import BaseModel

from functions.core.workflow_definition import DefinitionError
from functions.services.application import services_application
from functions.services.service import SampleService
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.unit.api.scene import problem


@pytest.mark.parametrize("name", ["loyalty-points", "tasks", "rejected", "faults", "Points", "p2", ""])
def test_name_that_its_table_cannot_have_is_refused(name: str) -> None:
    """The error names the service and the rule. Two services never share a table."""
    with pytest.raises(DefinitionError, match=f"sample service '{name}': its name must be"):
        SampleService(name, BaseModel)
    assert SampleService("parcels", BaseModel).table == "Parcels"


class _Empty:
    """A table without rows."""

    async def query_entities(self, *_: object, **__: object) -> AsyncIterator[object]:
        """Find nothing."""
        for each in tuple[object, ...]():
            yield each


_NO_FAULTS = cast("TableClient", _Empty())


@pytest.mark.parametrize("path", ["/api/services/parcels/task-1", "/api/services/parcels/faults/task-1"])
@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b" " * (64 * 1024 + 1), "application/json", 413),
        (b"[" * 17 + b"]" * 17, "application/json", 400),
        (b'{"kind": "slow", "seconds": "1_0"}', "application/json", 422),
        (b"{}", "text/plain", 415),
    ],
    ids=["long", "deep", "number", "text"],
)
async def test_bodies_have_limits(path: str, body: bytes, content_type: str, status: int) -> None:
    """With a problem document."""

    class Parcel(BaseModel):
        kind: int

    services = (SampleService("parcels", Parcel),)
    client = AsgiClient(services_application(services, lambda _: _NO_FAULTS, FakeClock().now))
    problem(await client.send("PUT", path, body, content_type=content_type), status)
