"""The sample services of a delivery: what they accept and confirm, and that the workflow matches them."""

from __future__ import annotations

from typing import Any

import pytest

from functions.workflow import Results
from functions.workflows.deliveries import REGISTRATION
from functions.workflows.deliveries.definition import DRONE, PACKAGE
from functions.workflows.deliveries.models import Delivery
from tests.fakes.asgi import AsgiClient
from tests.unit.services.scene import Bench

[EXAMPLE] = Delivery.model_json_schema()["examples"]

#: What each service accepts, and what it confirms.
ORDERS: dict[str, dict[str, Any]] = {
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
CONFIRMED: dict[str, dict[str, Any]] = {
    "packages": {"tracking_number": "PK7AFAA346B4"},
    "transports": {"carrier": "Northway Couriers", "price": "21.92", "currency": "EUR"},
    "drones": {"drone": "drone-32"},
    "deliveries": {"expected_at": "2026-11-21T13:30:00+00:00"},
}


@pytest.fixture
def client() -> AsgiClient:
    """Serve the workflow's sample services."""
    return Bench(REGISTRATION.services).client


@pytest.mark.parametrize("name", ORDERS)
async def test_booking_is_confirmed(name: str, client: AsgiClient) -> None:
    """With the values that the service adds, which are the same for a repeat."""
    path = f"/api/services/{name}/task-1"
    assert [(await client.put(path, ORDERS[name])).status for _ in range(2)] == [201, 204]
    assert (await client.get(path)).json == ORDERS[name] | CONFIRMED[name] | {"undone_at": None}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("packages", {"size": "huge"}),
        ("packages", {"weight_kg": 0}),
        ("transports", {"distance_km": "-1"}),
        ("drones", {"weight_kg": 25.1}),
        ("drones", {"pickup_at": "2026-11-21T12:00:00"}),
        ("deliveries", {"dropoff": {"latitude": 91, "longitude": 0}}),
        *((name, {"tip": 1}) for name in ORDERS),
    ],
)
async def test_wrong_order_is_422(name: str, change: dict[str, object], client: AsgiClient) -> None:
    """Nothing is made."""
    path = f"/api/services/{name}/task-1"
    assert (await client.put(path, ORDERS[name] | change)).status == 422
    assert (await client.get(path)).status == 404


async def test_account_is_active_until_it_is_suspended(client: AsgiClient) -> None:
    """Also an account that was never created. No account is deleted."""
    path = "/api/services/accounts/A-7"
    standings = [(await client.get(path)).json["suspended"]]
    for suspended in (True, False):
        await client.put(path, {"suspended": suspended})
        standings.append((await client.get(path)).json["suspended"])
    assert standings == [False, True, False]
    assert (await client.delete(path)).status == 405


async def test_account_can_be_unreachable(client: AsgiClient) -> None:
    """It has fault switches, too."""
    await client.put("/api/services/accounts/faults/A-7", {"kind": "fail"})
    assert (await client.get("/api/services/accounts/A-7")).status == 503


async def test_package_that_no_drone_can_carry_is_refused(client: AsgiClient) -> None:
    """A delivery that is compensated without a fault switch: accepted, labelled, and too heavy."""
    package = EXAMPLE["package"] | {"weight_kg": 30.0}
    delivery = Delivery.model_validate(EXAMPLE | {"package": package})
    for name, step, status in (("packages", PACKAGE, 201), ("drones", DRONE, 422)):
        request = step.options["request"](delivery, Results({}, step.name))
        assert (await client.put(f"/api/services/{name}/task-1", request)).status == status
