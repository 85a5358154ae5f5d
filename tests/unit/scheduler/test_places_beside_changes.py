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
from functions.pattern.records import TaskRecord
from functions.scheduler.progress import RunInput
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
from tests.fakes.workflows import TASK, step, workflow
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

    def __init__(self, of: Workflow, *, steps_at_once: int = 16) -> None:
        clock = VirtualClock()
        self.rows = MemoryRows(pending(of))
        self.agents = ScriptedAgent()
        writer = TaskWriter(self.rows, clock=clock, new_id=lambda: uuid.uuid4().hex, random=seeded(1))
        store = TableStateStore(self.rows, writer, _Nobody())  # type: ignore[arg-type]
        ports = fake_ports(store=store, clock=clock, breakers=MemoryBreakerRows())
        policy = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))
        self._places: Mapping[str, Places] = {"pay": Breaker("pay", ports, policy, at_once=1).places}
        agents = {each.agent: self.agents for each in of.steps}
        registry, bounds = Registry((of,), {}), limits(at_once=steps_at_once)
        self._runs = RunSteps(ports, agents, registry, bounds, self._places)

    @asynccontextmanager
    async def running(self, *slow: str) -> AsyncIterator[None]:
        """Have a run go on within the block and to its end, which lets go its `slow` steps."""
        self.agents.slow(*slow)
        running = asyncio.create_task(self._runs.run(RunInput(task=TASK, epoch=1, number=1, share=True)))
        try:
            yield
        finally:
            self.agents.let_go(*slow)
            await running

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


@pytest.mark.parametrize("is_unwritable", [False, True])
def test_place_for_what_would_follow_an_unrecorded_outcome_is_free(*, is_unwritable: bool) -> None:
    """An outage outlasts the step that has ended, and another of the task goes on for minutes.

    The outcome may have been one that can't be written, before what stands for it met the outage.
    """

    async def scenario() -> None:
        log, note, pay = _with(200, step("log"), step("note"), step("pay", "note")).steps
        bench = _WritingBench(workflow(log, replace(note, complete_within=20), pay))
        async with bench.running("log", "note"):
            await bench.agents.until_called("log", "note")
            (await bench.taken()).release()

            def is_refused(_: Transaction) -> bool:
                bench.rows.error, bench.rows.refuses = TransientError("no store"), lambda _: False
                return True

            if is_unwritable:
                bench.rows.refuses = is_refused
            else:
                bench.rows.error = TransientError("no store")
            bench.agents.let_go("note")
            await asyncio.sleep(60)
            bench.rows.error = None
            await asyncio.sleep(10)
            (await bench.taken()).release()

    in_virtual_time(scenario())


def _with(seconds: int, *steps: Step) -> Workflow:
    """Give a workflow whose steps have so much time."""
    return workflow(*(replace(each, complete_within=seconds) for each in steps))
