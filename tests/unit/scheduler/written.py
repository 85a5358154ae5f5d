"""The activity `run_steps` on the real writer of tasks, with rows in memory."""

from __future__ import annotations

import uuid
from typing import Any, cast

from functions.pattern.definition import Registry, Workflow
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
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
from tests.fakes.runners import limits
from tests.fakes.tasks import pending
from tests.fakes.workflows import TASK
from tests.unit.store.rows import MemoryRows


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
