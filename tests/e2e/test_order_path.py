"""An order's whole path through the platform."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest

from tests.e2e.caller import NEEDS_ORDERS, ORDER, Caller, running

pytestmark = [pytest.mark.process, NEEDS_ORDERS]


async def test_order_is_accepted_and_processed(tmp_path: Path) -> None:
    """202 with `Location`, where a GET soon returns `Processed`, with the step's times and the output.

    Operators see the task. Health, pages and the OpenAPI document are served.
    """
    async with running(tmp_path) as platform, Caller.of(platform) as caller:
        async with caller.session.post("/api/orders", json=ORDER) as answer:
            assert answer.status == HTTPStatus.ACCEPTED
            location = answer.headers["Location"]
        order = await caller.until_state(location.rpartition("/")[2], "Processed")
        step = order["steps"][0]
        assert (step["name"], step["state"]) == ("payment", "Completed")
        assert order["submitted_at"] < step["started_at"] < step["finished_at"] <= order["finished_at"]
        assert order["output"]["currency"] == ORDER["currency"]
        for page in (f"ops/tasks/{order['id']}", "ops/overview", "ops", "health", "openapi.json"):
            async with caller.session.get(f"/api/{page}") as answer:
                assert answer.status == HTTPStatus.OK, page
