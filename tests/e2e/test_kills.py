"""Host and broker are each killed in the middle of 60 orders, and restarted: no accepted order is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local.platform import PartName
from tests.e2e.caller import NEEDS_ORDERS, PATIENCE, Caller, rows, running, until_all_are

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(600)]

_ORDERS = 60
#: A recovery may be needed: it comes after the step's time, the skew and a second.
_SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SKEW_SECONDS": "1",
    "STEP_SECONDS": "orders.payment=30",
}
_BOUND = 180


async def test_killed_part_loses_no_order(tmp_path: Path) -> None:
    """`kill -9` while orders are accepted and processed, then a restart: each is processed and paid once."""
    ids: list[str] = []
    async with running(tmp_path, _SETTINGS) as platform, Caller.of(platform) as caller:
        for part in (PartName.HOST, PartName.BROKER):
            more = [f"order-{part.name.lower()}-{number}" for number in range(_ORDERS)]
            submissions = [asyncio.create_task(caller.submit_with_retries(order_id)) for order_id in more]
            await _until_some_are_processed(caller, more)
            await platform.kill(part)
            await platform.start(part)
            await asyncio.gather(*submissions)
            ids += more
        async with asyncio.timeout(_BOUND):
            await until_all_are("Processed", platform, set(ids), patience=_BOUND)
        assert sorted(row["RowKey"].partition(".")[0] for row in rows(platform, "Payments")) == sorted(ids)


async def _until_some_are_processed(caller: Caller, ids: list[str]) -> None:
    """Wait until orders are being processed: the first one that can be is `Processed`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for order_id in ids[:5]:
                order = await caller.look_at(order_id)
                if order is not None and order["state"] == "Processed":
                    return
            await asyncio.sleep(0.05)
