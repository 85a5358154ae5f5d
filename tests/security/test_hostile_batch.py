"""A batch that is slow to refuse does not delay other requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.api import batch
from functions.api.batch import BatchAcceptance
from functions.web.callers import Caller, Role
from tests.fakes.orders import ORDERS
from tests.security.hostile import HOSTILE, HostileBatch
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ITEM, ORDER, problem

_UNKNOWN = {f"unknown-{number}": number for number in range(400)}
_INVALID_ITEMS = [ITEM | {f"unknown-{number}": number for number in range(4)}] * 90


@pytest.mark.parametrize("batch", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_batch_is_answered_and_other_requests_are_served(batch: HostileBatch) -> None:
    """Beside it and after it. `python -m tests.security.hostile` prints the CPU time of each."""
    api = Api()
    sent = api.client.post("/api/orders/batch", batch.body)
    answer, health = await asyncio.gather(sent, api.client.get("/api/health"))
    assert (answer.status, health.status) == (batch.status, 200)
    assert {each["status"] for each in answer.json.get("results", [])} == batch.orders
    assert api.submissions.messages == []
    assert (await api.client.post("/api/orders", ORDER)).status == 202


@pytest.mark.parametrize(
    "change", [_UNKNOWN, {"items": _INVALID_ITEMS}], ids=["in the order", "in its items"]
)
async def test_other_requests_are_served_between_its_orders(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When each order takes longer than requests may wait, they are served between any two."""
    monkeypatch.setattr(batch, "_TURN", 0)
    assert await _turns_during([ORDER | change] * 100) >= 100


async def test_orders_that_are_quick_to_check_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy instance, each wait for other requests can take as long as checking the whole batch."""
    monkeypatch.setattr(batch, "_TURN", 60)
    assert await _turns_during([ORDER | {"currency": "euro"}] * 100) < 2 * batch._ROUNDS


async def _turns_during(orders: list[object]) -> int:
    """Count how often other requests are served until all the orders are refused."""
    batches = BatchAcceptance(ORDERS, Api().acceptance)
    taking = asyncio.create_task(batches.take(orders, Caller("anna", frozenset(Role))))
    turns = 0
    while not taking.done():
        await asyncio.sleep(0)
        turns += 1
    assert {answer.status for answer in await taking} == {422}
    return turns


async def test_faults_without_number_are_counted_and_not_listed() -> None:
    """To list what is wrong with 3,900 empty items takes longer than other requests may wait."""
    orders = [ORDER | {"items": [{}] * 3_900}, ORDER]
    answer = await Api().client.post("/api/orders/batch", {"orders": orders})
    refused, taken = answer.json["results"]
    assert refused["problem"]["errors"] == [{"field": "order", "reason": "wrong in 11701 places"}]
    assert taken["status"] == 202


async def test_fields_without_number_beside_the_orders_are_counted_and_not_listed() -> None:
    """Of the batch itself, too."""
    unknown = dict.fromkeys(map(str, range(39_000)))
    answer = await Api().client.post("/api/orders/batch", {"orders": [ORDER]} | unknown)
    reason = "Value error, 39001 fields beside each other, of which one is known"
    assert problem(answer, 422)["errors"] == [{"field": "body", "reason": reason}]


async def test_number_of_faults_named_is_bounded() -> None:
    """So the response is not many times as large as the request."""
    answer = await Api().client.post("/api/orders/batch", {"orders": [ORDER | _UNKNOWN]})
    [result] = answer.json["results"]
    assert len(result["problem"]["errors"]) == 10
