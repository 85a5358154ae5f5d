"""An order's whole path through the platform, and what its tables contain afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import pytest_asyncio

from local.platform import Platform
from tests.e2e.caller import NEEDS_ORDERS, ORDER, Caller, rows, running

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """Run one platform for all tests here."""
    async with running(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(platform: Platform) -> AsyncIterator[Caller]:
    """Call it."""
    async with Caller.of(platform) as caller:
        yield caller


async def test_order_is_accepted_and_processed(caller: Caller) -> None:
    """202 with `Location`, where a GET soon returns `Processed`, with the step's times and the output.

    Operators see the task. Health, pages and the OpenAPI document are served.
    """
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


async def test_same_order_again_gets_the_same_answer(caller: Caller, platform: Platform) -> None:
    """A caller that retries gets the same response, and pays once."""
    answers = []
    for _ in range(3):
        async with caller.session.put("/api/orders/again", json=ORDER) as answer:
            answers.append((answer.status, answer.headers["Location"], await answer.json()))
        await caller.until_state("again", "Processed")
    assert answers == [answers[0]] * 3
    assert len(rows(platform, "Payments", "PartitionKey eq 'again'")) == 1
