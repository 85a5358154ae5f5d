"""Steps whose service bears few calls at a time: they start in a place, or their task is put off."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from functions.agents import places as places_module
from functions.agents.breaker import Breaker
from functions.agents.places import Places
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.folding import Follow, Told, fold
from functions.pattern.identity import StepName, TaskId
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from functions.scheduler.progress import Progress, RunInput
from functions.scheduler.run_steps import RunSteps
from tests.fakes.agents import ScriptedAgent
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.runners import RecordedRequests, limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import after, pending
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import going_on, over

_ONE = workflow(step("pay"))
_TWO = workflow(step("pay"), step("log"))
_POLICY = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))


class Bench:
    """One instance whose payment service bears one call at a time, which another may have taken."""

    def __init__(self, of: Workflow = _ONE, *, at_once: int | None = 1) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.rows = MemoryBreakerRows()
        self.agents = ScriptedAgent()
        self.ports = fake_ports(
            store=self.store, clock=self.clock, breakers=self.rows, agent_messages=RecordedRequests()
        )
        self.places = self.breaker(at_once).places
        agents = {each.agent: self.agents for each in of.steps}
        given: dict[str, Places] = {"pay": self.places}
        self.runs = RunSteps(self.ports, agents, Registry((of,), {}), limits(), given)
        self.store.put(pending(of))

    def breaker(self, at_once: int | None = 1) -> Breaker:
        """Start one more instance."""
        return Breaker("pay", self.ports, _POLICY, at_once=at_once)

    async def run(self, run: int | None = None, *, share: bool = False, number: int = 1) -> Progress:
        """Run the activity of a run's Scheduler."""
        given = RunInput(task=TASK, epoch=1, number=number, share=share)
        if run is not None:
            given["run"] = run
        return await self.runs.run(given)

    def state_of(self, name: str) -> StepState:
        """Look at a step."""
        return self.store.record(TaskId(TASK)).step(StepName(name)).state


@pytest.fixture(autouse=True)
def _be_short_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.scheduler.run_places.PLACE_SECONDS", 0.1)
    assert places_module.PLACE_SECONDS == 1


async def test_step_that_finds_a_place_is_done() -> None:
    """Though the instance had no share when it looked first; the place is free afterwards."""
    bench = Bench()
    for task in ("done", "done again"):
        assert await bench.run() == over("Processed"), task
        bench.store.put(pending(_ONE))
    assert bench.agents.steps == ["pay", "pay"]
    assert len(bench.rows.written) <= 2


async def test_nothing_is_written_where_nothing_is_limited() -> None:
    """Nor read."""
    bench = Bench(at_once=None)
    assert await bench.run() == over("Processed")
    assert (bench.rows.reads, bench.rows.written) == (0, [])


async def test_step_without_a_place_has_its_task_put_off() -> None:
    """It has not started, no time of it has passed, and the next run finds a place."""
    bench = Bench()
    elsewhere = await bench.breaker().places.take()
    assert elsewhere is not None
    assert (await bench.run())["over"]
    task = bench.store.record(TASK).task
    assert (task.process_state, task.run, task.failure_count) == (ProcessState.PENDING, 1, 0)
    assert task.not_before is not None
    assert after(1) < task.not_before < after(60)
    assert bench.state_of("pay") is StepState.NOT_STARTED
    elsewhere.release()
    bench.clock.advance(60)
    assert (await bench.run(1))["state"] in {"Processed", "Pending"}


async def test_time_of_a_step_begins_when_it_has_its_place() -> None:
    """Not while it waited for it."""
    bench = Bench()
    first = await bench.places.take()
    assert first is not None
    running = asyncio.create_task(bench.run())
    await asyncio.sleep(0.02)
    bench.clock.advance(7)
    first.release()
    assert await running == over("Processed")
    assert bench.store.record(TASK).step(StepName("pay")).started_at == after(7)


async def test_others_go_on_beside_a_step_without_a_place() -> None:
    """The run ends with its time to try again: a run of the same Scheduler begins then."""
    bench = Bench(_TWO)
    elsewhere = await bench.breaker().places.take()
    assert elsewhere is not None
    bench.agents.slow("log")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("log")
    await asyncio.sleep(0.2)
    assert bench.state_of("pay") is StepState.NOT_STARTED
    other = await bench.run(number=2, share=True)
    assert other == going_on() | {"again_at": other["again_at"]}
    bench.agents.let_go("log")
    assert (await running)["over"]
    assert bench.state_of("log") is StepState.COMPLETED
    assert bench.store.record(TASK).task.process_state is ProcessState.PENDING


async def test_place_of_a_step_whose_agent_failed_is_free() -> None:
    """As after any other outcome."""
    bench = Bench()

    def fail() -> dict[str, bool]:
        raise RuntimeError("defect")

    bench.agents.behaviour = fail
    await bench.run()
    async with asyncio.timeout(5):
        assert await bench.places.take() is not None


@pytest.mark.parametrize("another_claims", [False, True])
async def test_place_that_was_taken_for_a_claim_is_free_when_that_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch, *, another_claims: bool
) -> None:
    """Else it is missing as long as the process lives, and after enough of them, the service has no calls."""
    bench = Bench()
    place = await bench.places.take()
    assert place is not None
    place.release()

    async def lose(_: TaskId, event: Event, *, follow: Follow, until: datetime) -> Refused:  # noqa: ARG001
        fold(bench.store.record(TASK), [Told(event, follow)], bench.clock.now())
        if another_claims:
            return Refused(RefusalReason.NOT_HOLDER)
        raise TransientError("no store")

    monkeypatch.setattr(bench.store, "change", lose)
    await bench.run()
    assert bench.places.take_now() is not None
