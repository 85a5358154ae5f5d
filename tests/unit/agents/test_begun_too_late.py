"""What must not be repeated is not begun after complete-by: somebody may have decided without it."""

from __future__ import annotations

import pytest

from functions.messages import queues
from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.agent_requests import Begun
from tests.fakes.tasks import after
from tests.unit.agents.test_queued import Bench


async def test_request_whose_begin_outlasts_complete_by_is_not_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store takes up to 30 s; meanwhile the epoch ends, and an operator says "not done"."""
    monkeypatch.setattr(queues, "_FIRST_WAIT", 0)
    bench = Bench()
    begin = bench.requests.begin

    async def slowly(request: AgentRequest, delivery: str, late: AgentReply | None) -> Begun:
        bench.clock.advance(11)
        return await begin(request, delivery, late)

    monkeypatch.setattr(bench.requests, "begin", slowly)
    await bench.take(idempotent=False)
    assert bench.script.calls == []


@pytest.mark.parametrize("wait", [11, 30], ids=["too little time", "none"])
async def test_request_whose_begin_leaves_too_little_time_was_not_taken(
    wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is known, and said, also after complete-by: nobody has to find out what became of it."""
    bench = Bench()
    begin = bench.requests.begin

    async def slowly(request: AgentRequest, delivery: str, late: AgentReply | None) -> Begun:
        assert late is None
        begun = await begin(request, delivery, late)
        bench.clock.advance(wait)
        return begun

    monkeypatch.setattr(bench.requests, "begin", slowly)
    for _ in range(2):
        await bench.take(idempotent=False, complete_by=after(25).isoformat(), complete_within=20)
        bench.clock.advance(20)
    assert bench.script.calls == []
    assert [reply.outcome for reply in bench.replies.sent] == ["not_taken"] * 2
