"""A batch of orders, some of them bad, on the whole platform."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.caller import NEEDS_ORDERS, ORDER, Caller, rows, running, until_all_are

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(600)]

_ITEM: Mapping[str, Any] = {"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}
_SIZE = 100

#: By position in the batch: what is sent there, and the wrong field (none: the order as a whole).
_BAD: Mapping[int, tuple[object, str]] = {
    0: ("no order", "order"),
    19: ({**ORDER, "id": "a b"}, "id"),
    50: (
        {**ORDER, "id": "nothing", "items": [_ITEM, {**_ITEM, "quantity": 0}]},
        "items.1.quantity",
    ),
    51: ({**ORDER, "id": "nobody", "customer": ""}, "customer"),
    99: ({**ORDER, "id": "astray", "reply_to": "elsewhere"}, "reply_to"),
}


async def test_five_bad_orders_do_not_affect_the_others(tmp_path: Path) -> None:
    """Each of 100 gets its own result, the bad ones with a reason; all others become `Processed`."""
    good = {index: f"order-{index}" for index in range(_SIZE) if index not in _BAD}
    batch = [{**ORDER, "id": good[index]} if index in good else _BAD[index][0] for index in range(_SIZE)]
    async with running(tmp_path) as platform, Caller.of(platform) as caller:
        results = await _submit(caller, batch)
        assert [each["index"] for each in results] == list(range(_SIZE))
        for index, task in good.items():
            accepted = {"status": 202, "id": task, "location": f"/api/orders/{task}"}
            assert results[index] == {"index": index, **accepted}
        refused = {each["index"]: each for each in results if each["status"] == 422}
        named = {
            index: [fault["field"] for fault in each["problem"]["errors"]] for index, each in refused.items()
        }
        assert named == {index: [field] for index, (_, field) in _BAD.items()}

        await until_all_are("Processed", platform, set(good.values()))
        assert sorted(row["RowKey"].partition(".")[0] for row in rows(platform, "Payments")) == sorted(
            good.values()
        )
        assert await _submit(caller, batch) == results  # the same request gets the same response


async def _submit(caller: Caller, batch: list[object]) -> list[dict[str, Any]]:
    async with caller.session.post("/api/orders/batch", json={"orders": batch}) as answer:
        assert answer.status == 200, await answer.text()
        results: list[dict[str, Any]] = (await answer.json())["results"]
        return results
