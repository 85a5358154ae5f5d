"""The sample payment service: it finds payments by their task, and refuses what is no payment."""

from __future__ import annotations

from typing import Any

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.workflows.orders import REGISTRATION
from tests.fakes.asgi import AsgiClient
from tests.integration.sample_services import serve

pytestmark = pytest.mark.process

PATH = "/api/services/payments/task-1"
PAYMENT_ORDER: dict[str, Any] = {"customer": "C-1042", "amount": "9.80", "currency": "EUR"}


@pytest.fixture
async def client(service: TableServiceClient) -> AsgiClient:
    """Serve the workflow's sample services."""
    return await serve(service, REGISTRATION.services)


async def test_payment_is_found_by_its_task(client: AsgiClient) -> None:
    """The last run id of an id is found; a fault is set by the id, for any run id."""
    assert (await client.put(f"{PATH}.0a1b2c3d", PAYMENT_ORDER)).status == 201
    assert (await client.put(f"{PATH}.4e5f6a7b", PAYMENT_ORDER | {"amount": "1.00"})).status == 201
    assert (await client.get(PATH)).json == PAYMENT_ORDER | {"amount": "1.00", "undone_at": None}
    assert (await client.get(f"{PATH}.0a1b2c3d")).json["amount"] == "9.80"
    assert (await client.put(f"{PATH}.nobirth", PAYMENT_ORDER)).status == 422
    await client.put("/api/services/payments/faults/task-1", {"kind": "fail"})
    assert (await client.put(f"{PATH}.0a1b2c3d", PAYMENT_ORDER)).status == 503


@pytest.mark.parametrize(
    "change", [{"amount": "0"}, {"amount": "free"}, {"currency": "euro"}, {"customer": ""}, {"tip": 1}]
)
async def test_wrong_payment_is_422(change: dict[str, object], client: AsgiClient) -> None:
    """Nothing is paid."""
    assert (await client.put(PATH, PAYMENT_ORDER | change)).status == 422
    assert (await client.get(PATH)).status == 404
