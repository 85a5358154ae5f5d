"""The sample services do each thing once, and never after an undo."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.services.application import services_application
from functions.services.resources import Resources
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.integration.sample_services import ORDERS, TablesOf, make_tables

pytestmark = pytest.mark.process

UNDONE_AT = "2026-11-21T10:00:00.123456Z"
CONFIRMED: dict[str, dict[str, Any]] = {
    "payments": {},
    "packages": {"tracking_number": "PK7AFAA346B4"},
    "transports": {"carrier": "Northway Couriers", "price": "21.92", "currency": "EUR"},
    "drones": {"drone": "drone-32"},
    "deliveries": {"expected_at": "2026-11-21T13:30:00+00:00"},
}

each_service = pytest.mark.parametrize("name", ORDERS)


@pytest.fixture
async def tables(service: TableServiceClient) -> TablesOf:
    """Make the services' tables."""
    return await make_tables(service)


@pytest.fixture
def client(tables: TablesOf) -> AsgiClient:
    """Serve the sample services."""
    return AsgiClient(services_application(tables, FakeClock()))


@each_service
async def test_resource_is_made_once(name: str, client: AsgiClient) -> None:
    """201, then 204 for the same again, both without content; what was confirmed is there to be seen."""
    path, order = f"/api/services/{name}/task-1", ORDERS[name]
    answers = [await client.put(path, order) for _ in range(3)]
    assert [(answer.status, answer.body) for answer in answers] == [(201, b""), (204, b""), (204, b"")]
    assert (await client.get(path)).json == order | CONFIRMED[name] | {"undone_at": None}


@each_service
async def test_undone_resource_cannot_be_made_again(name: str, client: AsgiClient) -> None:
    """The tombstone refuses the late repeat; what was undone stays to be seen."""
    path, order = f"/api/services/{name}/task-1", ORDERS[name]
    await client.put(path, order)
    assert (await client.delete(path)).status == 204
    refusal = await client.put(path, order)
    assert (refusal.status, refusal.headers["content-type"]) == (410, "application/problem+json")
    assert (await client.get(path)).json == order | CONFIRMED[name] | {"undone_at": UNDONE_AT}


@each_service
async def test_resource_undone_before_it_was_made_is_never_made(name: str, client: AsgiClient) -> None:
    """The undo overtook the do."""
    path = f"/api/services/{name}/task-1"
    assert [(await client.delete(path)).status for _ in range(2)] == [204, 204]
    assert (await client.put(path, ORDERS[name])).status == 410
    assert (await client.get(path)).json == {"undone_at": UNDONE_AT}


async def test_puts_at_the_same_moment_make_one(client: AsgiClient) -> None:
    """One of them makes it."""
    path, order = "/api/services/packages/task-1", ORDERS["packages"]
    answers = await asyncio.gather(*(client.put(path, order) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 204, 204, 204, 204]


async def test_undo_at_the_same_moment_wins_in_the_end(client: AsgiClient) -> None:
    """Whichever comes first, it is undone when both are over, and stays so."""
    order = ORDERS["drones"]
    for number in range(5):
        path = f"/api/services/drones/task-{number}"
        put, delete = await asyncio.gather(client.put(path, order), client.delete(path))
        assert (put.status in {201, 410}, delete.status) == (True, 204)
        assert (await client.get(path)).json["undone_at"] == UNDONE_AT
        assert (await client.put(path, order)).status == 410


async def test_undo_in_the_middle_of_a_repeat_stands(
    tables: TablesOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undone between the look at it and its replacement, it keeps its tombstone."""
    table = tables("Packages")
    packages = Resources(table, clock=FakeClock())
    await packages.put("task-1", {})
    read = table.get_entity

    async def read_and_be_overtaken(partition_key: str, row_key: str) -> Any:
        found = await read(partition_key, row_key)
        await packages.delete("task-1")
        return found

    monkeypatch.setattr(table, "get_entity", read_and_be_overtaken)
    assert await packages.put("task-1", {}) == 410


@each_service
async def test_unknown_resource_is_404(name: str, client: AsgiClient) -> None:
    """Nobody has ordered it."""
    assert (await client.get(f"/api/services/{name}/task-1")).status == 404


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("payments", {"amount": "0"}),
        ("payments", {"amount": "free"}),
        ("payments", {"currency": "euro"}),
        ("payments", {"customer": ""}),
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
    """And nothing is made."""
    path = f"/api/services/{name}/task-1"
    assert (await client.put(path, ORDERS[name] | change)).status == 422
    assert (await client.get(path)).status == 404


async def test_account_is_active_until_it_is_suspended(client: AsgiClient) -> None:
    """Also one that nobody has put."""
    path = "/api/services/accounts/A-7"
    standings = [(await client.get(path)).json]
    for suspended in (True, False):
        await client.put(path, {"suspended": suspended})
        standings.append((await client.get(path)).json)
    assert standings == [{"id": "A-7", "suspended": suspended} for suspended in (False, True, False)]
