"""What happens to an order when the payment service fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from local.platform import Platform
from tests.e2e.caller import NEEDS_ORDERS, Caller, rows, running
from tests.e2e.payment_service import PaymentService

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.asyncio(loop_scope="module")]

#: Seconds: enough for three calls on a busy machine, and less than one attempt may last.
_COMPLETE_WITHIN = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service() -> AsyncIterator[PaymentService]:
    """Serve payments as the tests script them."""
    async with PaymentService().serving() as service:
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(
    tmp_path_factory: pytest.TempPathFactory, service: PaymentService
) -> AsyncIterator[Platform]:
    """Run one platform for all tests here, which uses that service."""
    settings = {
        "PAYMENT_URL": service.url,
        "STEP_SECONDS": f"orders.payment={_COMPLETE_WITHIN}",
        "AGENTS_PICK_UP_SECONDS": "5",
        # On New Year's Day only: a task that it recovers would call the service during another test.
        "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
    }
    async with running(tmp_path_factory.mktemp("platform"), settings) as platform:
        yield platform


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(platform: Platform) -> AsyncIterator[Caller]:
    """Call it."""
    async with Caller.of(platform) as caller:
        yield caller


async def test_failing_service_is_retried(caller: Caller, service: PaymentService) -> None:
    """503 twice, then 201: processed within complete-by, with one idempotency key."""
    service.statuses["retried"] = [503, 503]
    await caller.put("retried")
    order = await caller.until_state("retried", "Processed")
    step = order["steps"][0]
    assert step["finished_at"] < step["complete_by"]
    keys = service.keys_of("retried")
    assert len(keys) == 3
    [key] = set(keys)
    assert re.fullmatch(r"retried\.[0-9a-f]{8}/payment/do", key)


async def test_refusal_makes_the_task_an_error(caller: Caller, service: PaymentService) -> None:
    """400 is permanent: `Error` with the reason, after one call."""
    service.statuses["refused"] = [400]
    await caller.put("refused")
    order = await caller.until_state("refused", "Error")
    assert order["last_error"] == "payment: payment answered 400"
    assert order["steps"][0]["state"] == "Failed"
    assert len(service.keys_of("refused")) == 1


async def test_silent_service_leaves_an_overdue_task(
    caller: Caller, platform: Platform, service: PaymentService
) -> None:
    """No response: the task stays `Processing` past its complete-by, for the Supervisor to find."""
    service.hanging.add("silent")
    await caller.put("silent")
    order = await caller.until("silent", lambda order: order["steps"][0]["state"] == "Running")
    complete_by = datetime.fromisoformat(order["steps"][0]["complete_by"])
    await asyncio.sleep(max(0.0, (complete_by - datetime.now(UTC)).total_seconds()))
    order = await caller.until("silent", lambda order: order["id"] == "silent")
    assert order["state"] == "Processing"
    index = [row for row in rows(platform, "Tasks", "OrderID eq 'silent'") if row["RowKey"].startswith("!")]
    assert [row["RowKey"].split("|")[0] for row in index] == ["!due"]
    due = datetime.strptime(index[0]["RowKey"].split("|")[1], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    assert due <= complete_by
