"""Runs at services that bear few calls at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

from functions.agents.breaker import Breaker
from functions.agents.places import CallPlace, Places
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Registry, Workflow
from functions.pattern.identity import StepName, TaskId
from functions.pattern.states import StepState
from functions.scheduler.progress import Progress, RunInput
from functions.scheduler.run_steps import RunSteps
from tests.fakes.agents import ScriptedAgent
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.runners import RecordedRequests, limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import pending
from tests.fakes.workflows import TASK, step, workflow

ONE = workflow(step("pay"))
_POLICY = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))


class PlacesBench:
    """One instance, whose payment service bears one call at a time, unless other `services` are given.

    Each run does so many steps at once. Another instance may have taken a place.
    """

    def __init__(
        self,
        of: Workflow = ONE,
        *,
        services: Mapping[str, int | None] | None = None,
        steps_at_once: int = 16,
    ) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.rows = MemoryBreakerRows()
        self.agents = ScriptedAgent()
        self.ports = fake_ports(
            store=self.store, clock=self.clock, breakers=self.rows, agent_messages=RecordedRequests()
        )
        self.services = services or {"pay": 1}
        self.places: Mapping[str, Places] = {
            name: Breaker(name, self.ports, _POLICY, at_once=at_once).places
            for name, at_once in self.services.items()
        }
        agents = {each.agent: self.agents for each in of.steps}
        bounds = limits(at_once=steps_at_once)
        self.runs = RunSteps(self.ports, agents, Registry((of,), {}), bounds, self.places)
        self.store.put(pending(of))

    async def taken_elsewhere(self, service: str = "pay") -> CallPlace:
        """Have one more instance take a place."""
        place = await Breaker(service, self.ports, _POLICY, at_once=self.services[service]).places.take()
        assert place is not None
        return place

    async def taken_here(self, service: str = "pay") -> CallPlace:
        """Take a place on this instance, which has a share from then on."""
        place = await self.places[service].take()
        assert place is not None
        return place

    async def run(self, run: int | None = None, *, share: bool = False, number: int = 1) -> Progress:
        """Run the activity of a run's Scheduler."""
        given = RunInput(task=TASK, epoch=1, number=number, share=share)
        if run is not None:
            given["run"] = run
        return await self.runs.run(given)

    @asynccontextmanager
    async def running_beside(self, *slow: str, share: bool = False) -> AsyncIterator[None]:
        """Have a run go on within the block, whose `slow` steps end after it; the first of them is called."""
        self.agents.slow(*slow)
        running = asyncio.create_task(self.run(share=share))
        await self.agents.until_called(slow[0])
        try:
            yield
        finally:
            self.agents.let_go(*slow)
            await running

    def state_of(self, name: str) -> StepState:
        """Look at a step."""
        return self.store.record(TaskId(TASK)).step(StepName(name)).state
