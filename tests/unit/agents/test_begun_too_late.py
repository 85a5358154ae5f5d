"""What must not be repeated is not begun after complete-by: somebody may have decided without it."""

from __future__ import annotations

import pytest

from functions.messages import patience
from functions.pattern.agent_messages import AgentRequest
from functions.pattern.agent_requests import Begun
from tests.unit.agents.test_queued import Bench


async def test_request_whose_begin_outlasts_complete_by_is_not_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store takes up to 30 s; meanwhile the epoch ends, and an operator says "not done"."""
    monkeypatch.setattr(patience, "_FIRST_WAIT", 0)
    bench = Bench()
    begin = bench.requests.begin

    async def slowly(request: AgentRequest, delivery: str) -> Begun:
        bench.clock.advance(11)
        return await begin(request, delivery)

    monkeypatch.setattr(bench.requests, "begin", slowly)
    await bench.take(idempotent=False)
    assert bench.script.calls == []
