"""A batch of deliveries, some of them bad, on the whole platform."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.caller import Caller, rows, running, until_all_processed

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

_DELIVERY: Mapping[str, Any] = {
    "account": "A-1042",
    "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
    "pickup": {"latitude": 47.6423, "longitude": -122.1391},
    "dropoff": {"latitude": 47.6205, "longitude": -122.3493},
    "pickup_at": "2026-11-21T12:00:00Z",
}
_SIZE = 500
#: Seconds after which deliveries that are not processed never will be; they take some 40 on two cores.
_PATIENCE = 240

#: By their place in the batch: what is sent there, and the field that is wrong (none: the order as a whole).
_BAD: Mapping[int, tuple[object, str]] = {
    0: ("no delivery", "order"),
    99: ({**_DELIVERY, "id": "a b"}, "id"),
    250: (
        {**_DELIVERY, "id": "heavy", "package": {**_DELIVERY["package"], "weight_kg": 51}},
        "package.weight_kg",
    ),
    251: ({**_DELIVERY, "id": "nowhere", "dropoff": {"latitude": 91, "longitude": 0}}, "dropoff.latitude"),
    499: ({**_DELIVERY, "id": "astray", "reply_to": "elsewhere"}, "reply_to"),
}


async def test_five_bad_deliveries_lose_none_of_the_others(tmp_path: Path) -> None:
    """Each of 500 gets its own answer, the bad ones with their reason; all others end as `Processed`."""
    good = {index: f"delivery-{index}" for index in range(_SIZE) if index not in _BAD}
    batch = [{**_DELIVERY, "id": good[index]} if index in good else _BAD[index][0] for index in range(_SIZE)]
    async with running(tmp_path) as platform, Caller.of(platform) as caller:
        results = await _submit(caller, batch)
        assert [each["index"] for each in results] == list(range(_SIZE))
        for index, task in good.items():
            accepted = {"status": 202, "id": task, "location": f"/api/deliveries/{task}"}
            assert results[index] == {"index": index, **accepted}
        refused = {each["index"]: each for each in results if each["status"] == 422}
        named = {
            index: [fault["field"] for fault in each["problem"]["errors"]] for index, each in refused.items()
        }
        assert named == {index: [field] for index, (_, field) in _BAD.items()}

        await until_all_processed(platform, set(good.values()), within=_PATIENCE)
        assert sorted(row["RowKey"] for row in rows(platform, "Deliveries")) == sorted(good.values())
        assert await _submit(caller, batch) == results  # the same again is the same answer


async def _submit(caller: Caller, batch: list[object]) -> list[dict[str, Any]]:
    async with caller.session.post("/api/deliveries/batch", json={"orders": batch}) as answer:
        assert answer.status == 200, await answer.text()
        results: list[dict[str, Any]] = (await answer.json())["results"]
        return results
