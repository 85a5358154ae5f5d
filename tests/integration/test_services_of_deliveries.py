"""The workflow's requests are what the sample services take, and their answers what the Agents expect."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.agents.booking import BookingAgent
from functions.agents.delivery import DeliveryAgent
from functions.agents.drone import DroneAgent
from functions.agents.package import PackageAgent
from functions.agents.transport import TransportAgent
from functions.pattern.definition import Json
from functions.pattern.identity import StepName
from functions.services.application import services_application
from functions.workflows.deliveries.definition import DELIVERIES, DELIVERY, DRONE, PACKAGE, TRANSPORT
from functions.workflows.deliveries.models import Delivery
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.integration.sample_services import make_tables

pytestmark = pytest.mark.process

BOOKINGS: Mapping[StepName, tuple[str, type[BookingAgent]]] = {
    PACKAGE: ("packages", PackageAgent),
    TRANSPORT: ("transports", TransportAgent),
    DRONE: ("drones", DroneAgent),
    DELIVERY: ("deliveries", DeliveryAgent),
}
[EXAMPLE] = Delivery.model_json_schema()["examples"]


@pytest.fixture
async def client(service: TableServiceClient) -> AsgiClient:
    """Serve the sample services."""
    return AsgiClient(services_application(await make_tables(service), FakeClock()))


async def _book(
    client: AsgiClient, delivery: Delivery, step: StepName, results: Mapping[StepName, Json]
) -> Json:
    name, agent = BOOKINGS[step]
    path = f"/api/services/{name}/task-1"
    request = DELIVERIES.step(step).request(delivery, results)
    assert (await client.put(path, request)).status == 201
    return agent.confirmation.model_validate((await client.get(path)).json).model_dump(mode="json")


@pytest.mark.parametrize("skipped", [{TRANSPORT}, set()], ids=["within the area", "beyond it"])
async def test_every_request_is_taken_and_every_answer_fits(
    skipped: set[StepName], client: AsgiClient
) -> None:
    """Each step with the results of those before it, in the order of the definition."""
    delivery = Delivery.model_validate(EXAMPLE)
    results: dict[StepName, Json] = {}
    for step in (step for step in BOOKINGS if step not in skipped):
        results[step] = await _book(client, delivery, step, results)
    assert results[DELIVERY] == {"expected_at": "2026-11-21T13:30:00Z"}


async def test_package_that_no_drone_can_carry_is_refused(client: AsgiClient) -> None:
    """A delivery that is compensated without any fault switch: ordered, labelled, and too heavy."""
    package = EXAMPLE["package"] | {"weight_kg": 30.0}
    delivery = Delivery.model_validate(EXAMPLE | {"package": package})
    await _book(client, delivery, PACKAGE, {})
    request = DELIVERIES.step(DRONE).request(delivery, {})
    assert (await client.put("/api/services/drones/task-1", request)).status == 422
