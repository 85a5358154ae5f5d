"""An Agent behind its queue, with all that it works on."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.agents.breaker import Breaker
from functions.agents.places import CallPlace
from functions.agents.queued import QueuedAgent
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Json
from functions.pattern.errors import TransientError
from functions.pattern.rejected import Content
from tests.fakes.agent_requests import MemoryAgentRequests, OneWayAgent
from tests.fakes.agents import ScriptedAgent
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.runners import RecordedReplies
from tests.fakes.tasks import after

REQUEST: dict[str, Any] = {
    "schema_version": 1,
    "task_id": "task-1",
    "step": "payment",
    "epoch": 2,
    "token": "token-of-this-request",
    "direction": "do",
    "effect_key": "task-1/payment/do",
    "complete_by": after(10).isoformat(),
    "idempotent": True,
    "request": {"amount": "9.80"},
    "result": None,
}
ECHO = {name: REQUEST[name] for name in ("schema_version", "task_id", "step", "epoch", "token")}
DONE = {"done": True}


_POLICY = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))


class Queue:
    """Keeps the requests that are sent again."""

    def __init__(self) -> None:
        self.put_back: list[tuple[str, str, Content, datetime | None]] = []

    async def put(
        self, queue: str, message_id: str, content: Content, *, not_before: datetime | None = None
    ) -> None:
        """Keep what is put back."""
        self.put_back.append((queue, message_id, content, not_before))


class Bench:
    """An Agent behind its queue, whose service may be limited to `at_once` calls."""

    def __init__(
        self, agent: ScriptedAgent | OneWayAgent | None = None, *, at_once: int | None = None
    ) -> None:
        self.clock = FakeClock()
        self.script = ScriptedAgent()
        self.replies = RecordedReplies()
        self.queue = Queue()
        self.requests = MemoryAgentRequests()
        self.ports = fake_ports(
            clock=self.clock,
            agent_messages=self.replies,
            agent_requests=self.requests,
            breakers=MemoryBreakerRows(),
            postbox=self.queue,
        )
        self.places = Breaker("payment", self.ports, _POLICY, at_once=at_once).places
        self.agent = QueuedAgent(
            "payment",
            agent or self.script,
            self.ports,
            function_timeout=300,
            places=self.places if at_once else None,
        )

    def until_its_call_ends(self) -> Json:
        """Stand in for a service that fails until the last call must end."""
        self.clock.advance((self.script.calls[-1].complete_by - self.clock.now()).total_seconds())
        raise TransientError("no answer")

    async def occupied(self) -> CallPlace:
        """Take the one place at the service."""
        place = await self.places.take()
        assert place is not None
        return place

    async def take(self, **changes: Any) -> None:
        """Take a request."""
        await self.agent.take("m-1", json.dumps(REQUEST | changes).encode())


@pytest.fixture
def bench() -> Bench:
    """Make a bench."""
    return Bench()
