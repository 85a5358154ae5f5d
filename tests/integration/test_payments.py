"""The sample payment service pays once, and never after an undo."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from azure.data.tables.aio import TableClient

from functions.services.payments import Payments, payments_application
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.process

PATH = "/api/services/payments/task-1"
PAYMENT = {"customer": "C-1042", "amount": "9.80", "currency": "EUR"}


@pytest.fixture
def client(table: TableClient) -> AsgiClient:
    """Serve payments from the test's table."""
    return AsgiClient(payments_application(Payments(table, clock=FakeClock())))


async def test_payment_is_made_once(client: AsgiClient) -> None:
    """201, then 204 for the same again; it is there to be seen."""
    assert [(await client.put(PATH, PAYMENT)).status for _ in range(3)] == [201, 204, 204]
    assert (await client.get(PATH)).json == PAYMENT | {"undone_at": None}


async def test_payments_at_the_same_moment_are_one(client: AsgiClient) -> None:
    """One of them makes it."""
    answers = await asyncio.gather(*(client.put(PATH, PAYMENT) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 204, 204, 204, 204]


async def test_undone_payment_cannot_be_made_again(client: AsgiClient) -> None:
    """The tombstone refuses the late repeat."""
    await client.put(PATH, PAYMENT)
    assert (await client.delete(PATH)).status == 204
    refusal = await client.put(PATH, PAYMENT)
    assert (refusal.status, refusal.headers["content-type"]) == (410, "application/problem+json")
    assert (await client.get(PATH)).json == PAYMENT | {"undone_at": "2026-11-21T10:00:00.123456Z"}


async def test_payment_undone_before_it_was_made_is_never_made(client: AsgiClient) -> None:
    """The undo overtook the do."""
    assert [(await client.delete(PATH)).status for _ in range(2)] == [204, 204]
    assert (await client.put(PATH, PAYMENT)).status == 410


async def test_undo_in_the_middle_of_a_repeat_stands(
    table: TableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the payment and its replacement, it is undone: the tombstone is not overwritten."""
    payments = Payments(table, clock=FakeClock())
    client = AsgiClient(payments_application(payments))
    await client.put(PATH, PAYMENT)
    read = table.get_entity

    async def read_and_be_overtaken(partition_key: str, row_key: str) -> Any:
        found = await read(partition_key, row_key)
        await payments.delete("task-1")
        return found

    monkeypatch.setattr(table, "get_entity", read_and_be_overtaken)
    assert (await client.put(PATH, PAYMENT)).status == 410


async def test_unknown_payment_is_404(client: AsgiClient) -> None:
    """Nobody has paid."""
    assert (await client.get(PATH)).status == 404


@pytest.mark.parametrize(
    "change", [{"amount": "0"}, {"amount": "free"}, {"currency": "euro"}, {"customer": ""}, {"tip": 1}]
)
async def test_wrong_payment_is_422(client: AsgiClient, change: dict[str, object]) -> None:
    """And is not made."""
    assert (await client.put(PATH, PAYMENT | change)).status == 422
    assert (await client.get(PATH)).status == 404
