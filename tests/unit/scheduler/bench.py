"""The activity `run_steps` with a task, its Agents and a clock, in memory."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, cast

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import UnwritableError
from functions.pattern.events import Event, StepCompleted
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.step_records import StepRecord
from functions.scheduler.progress import Progress, RunInput
from functions.scheduler.run_steps import RunLimits, RunSteps
from functions.store.state_store import TableStateStore
from functions.store.task_writer import TaskWriter
from tests.fakes.agents import ScriptedAgent
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.chance import Least
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.runners import RecordedRequests, limits, make_runs
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import pending
from tests.fakes.workflows import TASK
from tests.unit.store.rows import MemoryRows


class Bench:
    """Runs of one task's steps in one process."""

    def __init__(self, of: Workflow, limits: RunLimits | None = None) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.requests = RecordedRequests()
        self.agents = ScriptedAgent()
        agents = {each.agent: self.agents for each in of.steps}
        registry = Registry((of,), {})
        self.runs = make_runs(self.store, agents, registry, self.clock, requests=self.requests, bounds=limits)
        self.store.put(pending(of))

    async def run(self, number: int = 1, *, epoch: int = 1, share: bool = False) -> Progress:
        """Run the activity to its end."""
        return await self.runs.run(RunInput(task=TASK, epoch=epoch, number=number, share=share))

    def step(self, name: str) -> StepRecord:
        """Look at a step as it is recorded."""
        return self.store.record(TASK).step(StepName(name))

    @property
    def states(self) -> Mapping[str, str]:
        """Look at the states of all steps."""
        return {step.name: step.state.value for step in self.store.record(TASK).steps}

    @property
    def state(self) -> ProcessState:
        """Look at the task's state."""
        return self.store.record(TASK).task.process_state


def refuse_results(store: MemoryStateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the state store refuse the rows of each step that is completed."""
    change = store.change

    async def refuse(task: TaskId, event: Event, **options: Any) -> Any:
        if isinstance(event, StepCompleted):
            raise UnwritableError(task, "PropertyValueTooLarge")
        return await change(task, event, **options)

    monkeypatch.setattr(store, "change", refuse)


def over(state: str) -> Progress:
    """Give what the orchestrator hears of a task that needs it no more."""
    return Progress(state=state, over=True, runs=0, awaited={})


def going_on(runs: int = 0, awaited: dict[str, Any] | None = None) -> Progress:
    """Give what the orchestrator hears of a task that is not over."""
    return Progress(state="Processing", over=False, runs=runs, awaited=awaited or {})


class Process:
    """One process: its writer, its runs, and Agents that are scripted."""

    def __init__(self, of: Workflow, rows: MemoryRows | None = None, bounds: RunLimits | None = None) -> None:
        self.clock = FakeClock()
        self.rows = rows or MemoryRows(pending(of))
        self.agents = ScriptedAgent()
        self.writer = TaskWriter(self.rows, clock=self.clock, new_id=lambda: uuid.uuid4().hex, random=Least())
        store = TableStateStore(cast("Any", self.rows), self.writer, RecordingAnnouncer())
        ports = fake_ports(store=store, clock=self.clock)
        self.runs = RunSteps(
            ports, {each.agent: self.agents for each in of.steps}, Registry((of,), {}), bounds or limits()
        )

    async def run(self, number: int = 1, *, epoch: int = 1, share: bool = False) -> Progress:
        """Run the activity to its end."""
        return await self.runs.run(RunInput(task=TASK, epoch=epoch, number=number, share=share))

    @property
    def record(self) -> TaskRecord:
        """Look at the rows."""
        return self.rows.record(TASK)

    def step(self, name: str) -> StepRecord:
        """Look at a step's row."""
        return self.record.step(StepName(name))
