"""A runner of steps, with its recorder of outcomes, and the requests that it would send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError
from functions.pattern.messages import AgentRequest
from functions.pattern.ports import Agent, Clock
from functions.pattern.store_ports import StateStore
from functions.scheduler.outcomes import Outcomes
from functions.scheduler.step_runner import StepRunner
from tests.fakes.ports import fake_ports


@dataclass(slots=True)
class RecordedRequests:
    """Records what is sent to queue Agents; fails while `failing`."""

    sent: list[tuple[str, AgentRequest]] = field(default_factory=list)
    failing: bool = False

    async def ask(self, agent: str, request: AgentRequest) -> None:
        """Keep it."""
        if self.failing:
            raise TransientError("no queue")
        self.sent.append((agent, request))


def make_runner(
    store: StateStore,
    agents: Mapping[str, Agent],
    registry: Registry,
    clock: Clock,
    requests: RecordedRequests | None = None,
) -> StepRunner:
    """Create a runner with tokens `token-0000000001` and so on; the next step has 30 seconds to start."""
    numbers = count(1)
    ports = fake_ports(
        store=store,
        clock=clock,
        agent_messages=requests or RecordedRequests(),
        new_id=lambda: f"token-{next(numbers):010}",
    )
    return StepRunner(ports, Outcomes(ports, 30), agents, registry)
