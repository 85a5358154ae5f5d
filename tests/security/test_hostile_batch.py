"""A batch that is made to be slow to refuse holds nobody else up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.api import batch
from functions.api.batch import BatchAcceptance
from functions.web.callers import Caller, Role
from functions.workflows.orders.definition import ORDERS
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ITEM, ORDER

_UNKNOWN = {f"unknown-{number}": number for number in range(400)}
_STRANGE_ITEMS = [ITEM | {f"unknown-{number}": number for number in range(4)}] * 90


@pytest.mark.parametrize(
    "change", [_UNKNOWN, {"items": _STRANGE_ITEMS}], ids=["in the order", "in its items"]
)
async def test_others_are_served_meanwhile(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two of its orders that take as long as a turn."""
    monkeypatch.setattr(batch, "_TURN", 0)
    assert await _turns_during([ORDER | change] * 100) >= 100


async def test_orders_that_are_quick_to_check_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """While an instance is busy, a turn of the others can take as long as checking the whole batch."""
    monkeypatch.setattr(batch, "_TURN", 60)
    assert await _turns_during([ORDER | {"currency": "euro"}] * 100) < 10


async def _turns_during(orders: list[object]) -> int:
    """Count the turns of others until all the orders are refused."""
    batches = BatchAcceptance(ORDERS, Api().acceptance)
    taking = asyncio.create_task(batches.take(orders, Caller("anna", frozenset(Role))))
    turns = 0
    while not taking.done():
        await asyncio.sleep(0)
        turns += 1
    assert {answer.status for answer in await taking} == {422}
    return turns


async def test_no_more_faults_are_named_than_anybody_mends() -> None:
    """So the answer is not many times as large as what was sent."""
    answer = await Api().client.post("/api/orders/batch", {"orders": [ORDER | _UNKNOWN]})
    [result] = answer.json["results"]
    assert len(result["problem"]["errors"]) == 50
