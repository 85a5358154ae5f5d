"""Many orders at once, each submitted twice."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.e2e.caller import NEEDS_ORDERS, Caller, rows, running, until_all_are

pytestmark = [pytest.mark.night, pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(900)]


async def test_thousand_orders_submitted_twice_are_processed_once(tmp_path: Path) -> None:
    """1,000 orders, each id twice, end as 1,000 processed tasks and 1,000 payments."""
    ids = [f"order-{number}" for number in range(1_000)]
    async with running(tmp_path) as platform, Caller.of(platform) as caller:
        statuses = await asyncio.gather(*(caller.put(order_id) for order_id in ids * 2))
        assert set(statuses) == {HTTPStatus.ACCEPTED}
        await until_all_are("Processed", platform, set(ids))
        payments = rows(platform, "Payments")
        assert sorted(row["RowKey"].partition(".")[0] for row in payments) == sorted(ids)
