"""Hosts and broker are each killed in the middle of 60 orders, and restarted: no accepted order is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
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
#: Seconds after which the other host has taken over the instances of a killed one.
_TAKEN_OVER = 1.0


@pytest.mark.parametrize(
    "parts", [(PartName.HOST, PartName.BROKER), (PartName.HOST, PartName.HOST_2)], ids=["parts", "two hosts"]
)
async def test_killed_part_loses_no_order(tmp_path: Path, parts: tuple[PartName, ...]) -> None:
    """`kill -9` while orders are accepted and processed, then a restart: each is processed and paid once."""
    ids: list[str] = []
    hosts = 2 if PartName.HOST_2 in parts else 1
    async with running(tmp_path, _SETTINGS, hosts=hosts) as platform, Caller.of(platform) as caller:
        for part in parts:
            more = [f"order-{part.name.lower()}-{number}" for number in range(_ORDERS)]
            submissions = [asyncio.create_task(caller.submit_with_retries(order_id)) for order_id in more]
            await _until_some_are_processed(caller, more)
            for url in platform.addresses.hosts:
                assert await _episodes(url) > 0
            await platform.kill(part)
            if hosts > 1:
                await asyncio.sleep(_TAKEN_OVER)
            await platform.start(part)
            await asyncio.gather(*submissions)
            ids += more
        async with asyncio.timeout(_BOUND):
            await until_all_are("Processed", platform, set(ids), patience=_BOUND)
        assert sorted(row["RowKey"].partition(".")[0] for row in rows(platform, "Payments")) == sorted(ids)


async def _episodes(url: str) -> int:
    """Return the number of episodes of orchestrations that a host has run."""
    async with aiohttp.request("GET", f"{url}/admin/host/status") as answer:
        return int((await answer.json())["durable"].get("episodes_run", 0))


async def _until_some_are_processed(caller: Caller, ids: list[str]) -> None:
    """Wait until orders are being processed: the first one that can be is `Processed`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for order_id in ids[:5]:
                order = await caller.look_at(order_id)
                if order is not None and order["state"] == "Processed":
                    return
            await asyncio.sleep(0.05)
