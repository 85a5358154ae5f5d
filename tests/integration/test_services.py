"""Sample services do everything once, and nothing after an undo."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.services.resources import Resources
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.integration.sample_services import CONFIRMED, ORDER, PARCEL, make_tables, serve

pytestmark = pytest.mark.process

UNDONE_AT = "2026-11-21T10:00:00.123456Z"


@pytest.fixture
async def client(service: TableServiceClient) -> AsgiClient:
    """Serve the sample services."""
    return await serve(service)


async def test_resource_is_made_once(client: AsgiClient) -> None:
    """201, then 204 for the same request, both without content; a GET returns what was confirmed."""
    answers = [await client.put(PARCEL, ORDER) for _ in range(3)]
    assert [(answer.status, answer.body) for answer in answers] == [(201, b""), (204, b""), (204, b"")]
    assert (await client.get(PARCEL)).json == ORDER | CONFIRMED | {"undone_at": None}


async def test_undone_resource_cannot_be_made_again(client: AsgiClient) -> None:
    """The tombstone refuses the late repeat; a GET still returns what was undone."""
    await client.put(PARCEL, ORDER)
    assert (await client.delete(PARCEL)).status == 204
    refusal = await client.put(PARCEL, ORDER)
    assert (refusal.status, refusal.headers["content-type"]) == (410, "application/problem+json")
    assert (await client.get(PARCEL)).json == ORDER | CONFIRMED | {"undone_at": UNDONE_AT}


async def test_resource_undone_before_it_was_made_is_never_made(client: AsgiClient) -> None:
    """The undo arrives before the do."""
    assert [(await client.delete(PARCEL)).status for _ in range(2)] == [204, 204]
    assert (await client.put(PARCEL, ORDER)).status == 410
    assert (await client.get(PARCEL)).json == {"undone_at": UNDONE_AT}


async def test_concurrent_puts_make_one(client: AsgiClient) -> None:
    """Only one of them makes it."""
    answers = await asyncio.gather(*(client.put(PARCEL, ORDER) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 204, 204, 204, 204]


async def test_concurrent_undo_prevails(client: AsgiClient) -> None:
    """Whichever comes first, it is undone when both have ended, and stays undone."""
    for number in range(5):
        path = f"{PARCEL}-{number}"
        put, delete = await asyncio.gather(client.put(path, ORDER), client.delete(path))
        assert (put.status in {201, 410}, delete.status) == (True, 204)
        assert (await client.get(path)).json["undone_at"] == UNDONE_AT
        assert (await client.put(path, ORDER)).status == 410


async def test_undo_during_a_repeat_prevails(
    service: TableServiceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undone between the read and the replacement of its row, it keeps its tombstone."""
    table = (await make_tables(service))("Parcels")
    parcels = Resources(table, FakeClock())
    await parcels.put("task-1", {})
    read = table.get_entity

    async def read_then_undo(partition_key: str, row_key: str) -> Any:
        found = await read(partition_key, row_key)
        await parcels.delete("task-1")
        return found

    monkeypatch.setattr(table, "get_entity", read_then_undo)
    assert await parcels.put("task-1", {}) == 410


async def test_unknown_resource_is_404(client: AsgiClient) -> None:
    """It was never ordered."""
    assert (await client.get(PARCEL)).status == 404


@pytest.mark.parametrize("change", [{"weight_kg": 0}, {"weight_kg": "much"}, {"tip": 1}])
async def test_wrong_order_is_422(change: dict[str, object], client: AsgiClient) -> None:
    """Nothing is made."""
    assert (await client.put(PARCEL, ORDER | change)).status == 422
    assert (await client.get(PARCEL)).status == 404
