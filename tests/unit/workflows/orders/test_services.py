"""The sample payment service: it finds payments by their task, and refuses what is no payment."""

from __future__ import annotations

from typing import Any

import pytest

from functions.workflows.orders import REGISTRATION
from tests.unit.services.scene import Bench

PATH = "/api/services/payments/task-1"
PAYMENT_ORDER: dict[str, Any] = {"customer": "C-1042", "amount": "9.80", "currency": "EUR"}


@pytest.fixture
def bench() -> Bench:
    """Serve the workflow's sample services."""
    return Bench(REGISTRATION.services)


async def test_payment_is_found_by_its_task(bench: Bench) -> None:
    """The last run id of an id is found; a fault is set by the id, for any run id."""
    client = bench.client
    assert (await client.put(f"{PATH}.4e5f6a7b", PAYMENT_ORDER)).status == 201
    bench.clock.advance(1)
    assert (await client.put(f"{PATH}.0a1b2c3d", PAYMENT_ORDER | {"amount": "1.00"})).status == 201
    assert (await client.get(PATH)).json == PAYMENT_ORDER | {"amount": "1.00", "undone_at": None}
    assert (await client.get(f"{PATH}.4e5f6a7b")).json["amount"] == "9.80"
    assert (await client.put(f"{PATH}.nobirth", PAYMENT_ORDER)).status == 422
    await client.put("/api/services/payments/faults/task-1", {"kind": "fail"})
    assert (await client.put(f"{PATH}.0a1b2c3d", PAYMENT_ORDER)).status == 503


@pytest.mark.parametrize(
    "change", [{"amount": "0"}, {"amount": "free"}, {"currency": "euro"}, {"customer": ""}, {"tip": 1}]
)
async def test_wrong_payment_is_422(change: dict[str, object], bench: Bench) -> None:
    """Nothing is paid."""
    assert (await bench.client.put(PATH, PAYMENT_ORDER | change)).status == 422
    assert (await bench.client.get(PATH)).status == 404
