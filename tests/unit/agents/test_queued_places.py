"""A request to an Agent behind a queue that finds no place at the service waits on the queue."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta

import pytest

from functions.agents.breaker import Breaker
from functions.agents.places import CallPlace
from functions.agents.queued import QueuedAgent
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.rejected import Content
from tests.fakes.agent_requests import MemoryAgentRequests
from tests.fakes.agents import ScriptedAgent, raising
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.runners import RecordedReplies
from tests.fakes.tasks import after
from tests.unit.agents.test_queued import REQUEST

_POLICY = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))
_LATER = REQUEST | {"complete_by": after(600).isoformat(), "of_a_later_version": 1}


class _Queue:
    def __init__(self) -> None:
        self.put_back: list[tuple[str, str, Content, datetime | None]] = []

    async def put(
        self, queue: str, message_id: str, content: Content, *, not_before: datetime | None = None
    ) -> None:
        """Keep what is put back."""
        self.put_back.append((queue, message_id, content, not_before))


class Bench:
    """An Agent whose service bears one call at a time."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.script = ScriptedAgent()
        self.replies = RecordedReplies()
        self.queue = _Queue()
        self.requests = MemoryAgentRequests()
        ports = fake_ports(
            clock=self.clock,
            agent_messages=self.replies,
            agent_requests=self.requests,
            breakers=MemoryBreakerRows(),
            postbox=self.queue,
        )
        self.places = Breaker("payment", ports, _POLICY, at_once=1).places
        self.agent = QueuedAgent("payment", self.script, ports, function_timeout=300, places=self.places)

    async def occupied(self) -> CallPlace:
        """Have the one place taken."""
        place = await self.places.take()
        assert place is not None
        return place


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Make a bench with little patience."""
    monkeypatch.setattr("functions.agents.queued.PLACE_SECONDS", 0.05)
    return Bench()


async def test_request_without_a_place_is_sent_again_for_later(bench: Bench) -> None:
    """As it came, with what a later version has added, under another id; nobody is called."""
    await bench.occupied()
    body = json.dumps(_LATER).encode()
    await bench.agent.take("m-1", body)
    [(queue, message_id, content, not_before)] = bench.queue.put_back
    assert (queue, content.body) == ("agent-payment-requests", body)
    assert message_id.startswith("task-1.2.payment.")
    assert not_before is not None
    assert after(1) < not_before <= after(60)
    assert (bench.script.calls, bench.replies.sent) == ([], [])


async def test_request_with_the_longest_names_is_sent_again(bench: Bench) -> None:
    """Ids hold 128 characters (Service Bus): on a longer one, the client fails with a whole batch."""
    longest = {"task_id": "t" * 64, "epoch": 1_000_000, "step": "s" * 32, "item": 89, "dispatch": 10}
    await bench.occupied()
    for _ in range(2):
        await bench.agent.take("m-1", json.dumps(_LATER | longest).encode())
    first, second = (message_id for _, message_id, _, _ in bench.queue.put_back)
    assert max(len(first), len(second)) <= 128
    assert first != second


@pytest.mark.parametrize("idempotent", [True, False])
async def test_request_that_finds_a_place_is_carried_out(bench: Bench, *, idempotent: bool) -> None:
    """The place is free for the next one, even while its reply can't be sent."""
    body = json.dumps(_LATER | {"idempotent": idempotent}).encode()
    await bench.agent.take("m-1", body)
    assert (len(bench.script.calls), len(bench.replies.sent)) == (1, 1)
    async with asyncio.timeout(5):
        await bench.occupied()


async def test_request_that_must_not_be_repeated_is_not_begun_without_a_place(bench: Bench) -> None:
    """It can be carried out when it comes again."""
    place = await bench.occupied()
    body = json.dumps(_LATER | {"idempotent": False}).encode()
    await bench.agent.take("m-1", body)
    place.release()
    await bench.agent.take("m-2", body)
    assert (len(bench.script.calls), len(bench.replies.sent)) == (1, 1)


async def test_late_request_needs_no_place(bench: Bench) -> None:
    """It is not called; nor is one sent again that would come later than that."""
    await bench.occupied()
    await bench.agent.take("m-1", json.dumps(REQUEST | {"complete_by": after(0.5).isoformat()}).encode())
    assert [not_before for *_, not_before in bench.queue.put_back] == [after(0.5)]
    bench.clock.advance(1)
    await bench.agent.take("m-2", json.dumps(REQUEST | {"complete_by": after(0.5).isoformat()}).encode())
    assert len(bench.queue.put_back) == 1
    assert bench.script.calls == []


async def test_place_is_free_after_a_defect(bench: Bench) -> None:
    """Whatever the Agent raises."""
    bench.script.behaviour = raising(RuntimeError("defect"))
    with pytest.raises(RuntimeError):
        await bench.agent.take("m-1", json.dumps(_LATER).encode())
    async with asyncio.timeout(5):
        await bench.occupied()
