"""The activity `run_steps` for tests, and the messages to and from queue Agents that it would send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError
from functions.pattern.ports import Agent, Clock
from functions.pattern.store_ports import StateStore
from functions.scheduler.run_steps import RunLimits, RunSteps
from tests.fakes.ports import fake_ports


@dataclass(slots=True)
class RecordedRequests:
    """Records what is sent to queue Agents; fails `faults` times before."""

    sent: list[tuple[str, AgentRequest]] = field(default_factory=list)
    faults: int = 0

    async def ask(self, agent: str, request: AgentRequest) -> None:
        """Keep it."""
        if self.faults > 0:
            self.faults -= 1
            raise TransientError("no queue")
        self.sent.append((agent, request))


@dataclass(slots=True)
class RecordedReplies:
    """Records Agents' replies; fails while `failing`."""

    sent: list[AgentReply] = field(default_factory=list)
    failing: bool = False

    async def reply(self, reply: AgentReply) -> None:
        """Keep it."""
        if self.failing:
            raise TransientError("no queue")
        self.sent.append(reply)


def limits(*, at_once: int = 16, seconds: float = 300, pick_up_within: float = 0) -> RunLimits:
    """Give a run's limits; what is ready has 30 seconds to start."""
    return RunLimits(at_once=at_once, seconds=seconds, start_within=30, pick_up_within=pick_up_within)


def make_runs(
    store: StateStore,
    agents: Mapping[str, Agent],
    registry: Registry,
    clock: Clock,
    *,
    requests: RecordedRequests | None = None,
    bounds: RunLimits | None = None,
    process: str = "id",
) -> RunSteps:
    """Create the activity of a process; its start ids and tokens are `id-0000000000001` and so on."""
    numbers = count(1)
    ports = fake_ports(
        store=store,
        clock=clock,
        agent_messages=requests or RecordedRequests(),
        new_id=lambda: f"{process}-{next(numbers):013}",
    )
    return RunSteps(ports, agents, registry, bounds or limits())
