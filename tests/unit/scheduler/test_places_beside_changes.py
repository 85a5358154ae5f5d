"""Places at limited services, beside changes of the task that are written, or not, at the same moment."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from functions.agents.breaker import Breaker
from functions.agents.places import CallPlace, Places
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.errors import TransientError
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import StepState
from functions.scheduler.progress import Progress, RunInput
from functions.scheduler.run_steps import RunSteps
from functions.store.state_store import TableStateStore
from functions.store.task_writer import TaskWriter
from functions.store.transactions import Committed, Conflicted, Transaction
from tests.fakes.agents import ScriptedAgent
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import seeded
from tests.fakes.ports import fake_ports
from tests.fakes.runners import limits
from tests.fakes.tasks import pending
from tests.fakes.virtual_time import VirtualClock, in_virtual_time
from tests.fakes.workflows import LINE, TASK, nested, step, workflow
from tests.unit.store.rows import MemoryRows

_PATIENCE = 0.1


@pytest.fixture(autouse=True)
def _be_short_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.scheduler.run_places.PLACE_SECONDS", _PATIENCE)


class _Nobody:
    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Announce nothing."""


class _WritingBench:
    """A process whose changes of the task go through the task writer; `pay` bears one call at a time."""

    def __init__(self, of: Workflow, *others: Workflow, steps_at_once: int = 16) -> None:
        self.bus_is_back_at = 0.0
        self.requested = asyncio.Event()
        clock = VirtualClock()
        self.rows = MemoryRows(pending(of))
        self.agents = ScriptedAgent()
        writer = TaskWriter(self.rows, clock=clock, new_id=lambda: uuid.uuid4().hex, random=seeded(1))
        store = TableStateStore(self.rows, writer, _Nobody())  # type: ignore[arg-type]
        ports = fake_ports(store=store, clock=clock, breakers=MemoryBreakerRows(), scheduler_requests=self)
        policy = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))
        self._places: Mapping[str, Places] = {"pay": Breaker("pay", ports, policy, at_once=1).places}
        agents = {each.agent: self.agents for each in of.steps}
        registry, bounds = Registry((of, *others), {}), limits(at_once=steps_at_once)
        self._runs = RunSteps(ports, agents, registry, bounds, self._places)

    @asynccontextmanager
    async def running(self, *slow: str) -> AsyncIterator[None]:
        """Have a run go on within the block and to its end, which lets go its `slow` steps."""
        self.agents.slow(*slow)
        running = asyncio.create_task(self.run(share=True))
        try:
            yield
        finally:
            self.agents.let_go(*slow)
            await running

    async def run(self, *, share: bool) -> Progress:
        """Run the activity; the first run of an epoch does not `share`."""
        return await self._runs.run(RunInput(task=TASK, epoch=1, number=1, share=share))

    async def request(self, *_: object) -> None:
        """Take the request of a child's Scheduler, unless Service Bus is away."""
        if asyncio.get_running_loop().time() < self.bus_is_back_at:
            raise TransientError("no bus")
        self.requested.set()

    async def taken(self) -> CallPlace:
        """Take the one place, as the step of another task does."""
        place = await self._places["pay"].take(10)
        assert place is not None
        return place

    def is_free(self) -> bool:
        """Tell whether the one place is free."""
        place = self._places["pay"].take_now()
        if place is not None:
            place.release()
        return place is not None


def test_step_keeps_the_place_that_another_outcome_found_for_it() -> None:
    """Its own place comes while the run is full, and a moment later a step ends: both are told at once."""

    async def scenario() -> None:
        bench = _WritingBench(workflow(step("pay"), step("log")), steps_at_once=1)
        place = await bench.taken()
        async with bench.running("log", "pay"):
            await bench.agents.until_called("log")
            await asyncio.sleep(2 * _PATIENCE)
            bench.rows.gate.clear()
            place.release()
            await bench.rows.until_waiting()
            bench.agents.let_go("log")
            await asyncio.sleep(0.01)
            bench.rows.gate.set()
            await bench.agents.until_called("pay")
            assert not bench.is_free()

    in_virtual_time(scenario())


def test_step_keeps_its_place_when_an_outcome_starts_it_after_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That its place had come could not be told in time, which is known while the outcome is written."""

    async def scenario() -> None:
        bench = _WritingBench(_with(200, step("log"), step("note"), step("pay")))
        commit = bench.rows.commit

        async def slower(transaction: Transaction) -> Committed | Conflicted:
            await asyncio.sleep(0.02)
            return await commit(transaction)

        place = await bench.taken()
        async with bench.running("log", "note", "pay"):
            await bench.agents.until_called("log", "note")
            await asyncio.sleep(2 * _PATIENCE)
            bench.rows.error = TransientError("no store")
            place.release()
            await asyncio.sleep(1)
            bench.agents.let_go("note")
            await asyncio.sleep(28)
            bench.rows.error = None
            bench.rows.gate.clear()
            monkeypatch.setattr(bench.rows, "commit", slower)
            await asyncio.sleep(3)
            bench.rows.gate.set()
            await bench.agents.until_called("pay")
            assert not bench.is_free()

    in_virtual_time(scenario())


def test_place_for_what_would_follow_an_unrecorded_outcome_is_free() -> None:
    """An outage outlasts the step that has ended, and another of the task goes on for minutes."""

    async def scenario() -> None:
        log, note, pay = _with(200, step("log"), step("note"), step("pay", "note")).steps
        bench = _WritingBench(workflow(log, replace(note, complete_within=20), pay))
        async with bench.running("log", "note"):
            await bench.agents.until_called("log", "note")
            (await bench.taken()).release()
            bench.rows.error = TransientError("no store")
            (await bench.taken()).release()
            bench.agents.let_go("note")
            await asyncio.sleep(60)
            bench.rows.error = None
            await asyncio.sleep(10)
            (await bench.taken()).release()

    in_virtual_time(scenario())


def test_step_that_would_outlast_its_run_is_left_to_another() -> None:
    """Also by a first run that has begun nothing, where its claim and its child's request come late."""

    async def scenario() -> None:
        bench = _WritingBench(workflow(nested("trip"), *_with(270, step("pay")).steps), LINE)
        place = await bench.taken()
        bench.rows.gate.clear()
        bench.bus_is_back_at = asyncio.get_running_loop().time() + 45
        running = asyncio.create_task(bench.run(share=False))
        await asyncio.sleep(20)
        bench.rows.gate.set()
        await bench.requested.wait()
        place.release()
        progress = await running
        assert bench.rows.record(TASK).step(StepName("pay")).state is StepState.NOT_STARTED
        assert "again_at" in progress  # its Scheduler has another run try again

    in_virtual_time(scenario())


def _with(seconds: int, *steps: Step) -> Workflow:
    """Give a workflow whose steps have so much time."""
    return workflow(*(replace(each, complete_within=seconds) for each in steps))
