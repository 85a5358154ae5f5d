"""A process is killed in the middle of 100 orders and restarted: no accepted order is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local.platform import PartName
from tests.e2e.caller import NEEDS_ORDERS, Caller, rows, running, until_all_are

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(600)]

_ORDERS = 100
#: A recovery may be needed: it comes after the step's time, the skew and a second.
_SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SKEW_SECONDS": "1",
    "STEP_SECONDS": "orders.payment=15",
    "AGENTS_PICK_UP_SECONDS": "15",
}
_BOUND = 180


@pytest.mark.parametrize("part", [PartName.HOST, PartName.BROKER])
async def test_killed_part_loses_no_order(tmp_path: Path, part: PartName) -> None:
    """`kill -9` while orders are accepted and processed, then a restart: each is processed and paid once."""
    ids = [f"order-{number}" for number in range(_ORDERS)]
    async with running(tmp_path, _SETTINGS) as platform, Caller.of(platform) as caller:
        submissions = [asyncio.create_task(caller.submit_with_retries(order_id)) for order_id in ids]
        await _until_some_are_processed(caller, ids)
        await platform.kill(part)
        await platform.start(part)
        await asyncio.gather(*submissions)
        async with asyncio.timeout(_BOUND):
            await until_all_are("Processed", platform, set(ids), patience=_BOUND)
        assert sorted(row["RowKey"].partition(".")[0] for row in rows(platform, "Payments")) == sorted(ids)


async def _until_some_are_processed(caller: Caller, ids: list[str]) -> None:
    """Wait until orders are being processed: the first one that can be is `Processed`."""
    async with asyncio.timeout(60):
        while True:
            for order_id in ids[:5]:
                order = await caller.look_at(order_id)
                if order is not None and order["state"] == "Processed":
                    return
            await asyncio.sleep(0.05)
