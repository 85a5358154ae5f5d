"""The document's Agent in place of ours: orders are paid and refunded by another team's process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.remote_agent import RemoteAgent
from tests.e2e.caller import NEEDS_ORDERS, ORDER, Caller, rows, running

pytestmark = [pytest.mark.process, NEEDS_ORDERS]


async def test_orders_are_paid_by_an_agent_elsewhere(tmp_path: Path) -> None:
    """One is `Processed`; one is refused, and refunded when its operator requests the undo."""
    folder = tmp_path / "agent"
    folder.mkdir()
    async with (
        running(tmp_path / "data", {"AGENTS_ELSEWHERE": "payment"}) as platform,
        Caller.of(platform) as caller,
    ):
        await caller.put("paid")
        await caller.until("paid", lambda order: order["steps"][0]["state"] == "Running")
        with RemoteAgent(folder, platform.addresses.service_bus_connection) as agent:
            await caller.until_state("paid", "Processed")
            await caller.put("refused", ORDER | {"currency": "USD"})
            order = await caller.until_state("refused", "Error")
            assert order["last_error"] == "the operators know the reason"
            async with caller.session.get("/api/ops/tasks/refused") as answer:
                assert (await answer.json())["last_error"] == "payment: we take an amount in euros"
            undo, own = {"reason": "the customer pays in cash"}, {"X-Requested-With": "test"}
            async with caller.session.post("/api/ops/tasks/refused/undo", json=undo, headers=own) as answer:
                assert answer.ok, await answer.text()
            await caller.until_state("refused", "Compensated")
            paid = {key.partition(".")[0]: state for key, state in agent.payments().items()}
            assert paid == {"paid": "paid", "refused": "undone"}
        assert rows(platform, "Payments") == []
