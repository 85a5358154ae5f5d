"""A runner of steps, with what it records its outcomes by, and the requests that it would send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.errors import TransientError
from functions.pattern.ports import Agent, Clock
from functions.pattern.registry import Registry
from functions.pattern.store_ports import StateStore
from functions.scheduler.outcomes import Outcomes
from functions.scheduler.step_runner import AgentRunner


@dataclass(slots=True)
class RecordedRequests:
    """Keeps what is sent to Agents behind queues; fails while `failing`."""

    sent: list[tuple[str, AgentRequest]] = field(default_factory=list)
    failing: bool = False

    async def send(self, agent: str, request: AgentRequest) -> None:
        """Keep it."""
        if self.failing:
            raise TransientError("no queue")
        self.sent.append((agent, request))


@dataclass(slots=True)
class RecordedReplies:
    """Keeps what Agents reply; fails while `failing`."""

    sent: list[AgentReply] = field(default_factory=list)
    failing: bool = False

    async def send(self, reply: AgentReply) -> None:
        """Keep it."""
        if self.failing:
            raise TransientError("no queue")
        self.sent.append(reply)


def make_outcomes(store: StateStore, clock: Clock) -> Outcomes:
    """Record outcomes; what follows must start within 30 seconds."""
    return Outcomes(store=store, clock=clock, start_within=30)


def make_runner(
    store: StateStore,
    agents: Mapping[str, Agent],
    registry: Registry,
    clock: Clock,
    requests: RecordedRequests | None = None,
) -> AgentRunner:
    """Make a runner; its tokens are `token-0000000001` and so on."""
    numbers = count(1)
    return AgentRunner(
        store=store,
        outcomes=make_outcomes(store, clock),
        agents=agents,
        requests=requests or RecordedRequests(),
        registry=registry,
        clock=clock,
        new_token=lambda: f"token-{next(numbers):010}",
    )
