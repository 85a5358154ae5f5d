"""One attempt at a step: what the Agent gets of the task's record, and how the outcome is recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from functions.pattern.definition import Json, Registry, Step, Workflow
from functions.pattern.events import Refused, StepCompleted, StepFailed, StepSkipped
from functions.pattern.identity import Epoch, SchedulerId, StepName, TaskId, effect_key, scheduler_id
from functions.pattern.ports import AgentCall, Ports
from functions.pattern.records import MAX_RESULT_BYTES, TaskRecord
from functions.pattern.states import Direction, Outcome
from functions.pattern.steps import ready_steps
from functions.pattern.store_ports import Stored
from functions.scheduler.orchestrator import Progress


class Author(TypedDict):
    """Whose an event of a step is: the fields that these events have in common."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName


@dataclass(frozen=True, slots=True)
class StepAttempt:
    """One step of a task in one epoch."""

    task: TaskId
    epoch: Epoch
    step: Step
    workflow: Workflow

    @classmethod
    def at(cls, record: TaskRecord, epoch: Epoch, step: StepName, registry: Registry) -> StepAttempt:
        """Find the step's definition. Raises `LookupError` when its workflow is not registered."""
        workflow = registry.find(record.order.workflow)
        if workflow is None:
            task = record.order.task
            raise LookupError(f"task {task}: its workflow '{record.order.workflow}' is not registered")
        return cls(record.order.task, epoch, workflow.step(step), workflow)

    @property
    def author(self) -> Author:
        """Give the fields of an event of this attempt that say whose it is."""
        return Author(epoch=self.epoch, scheduler=scheduler_id(self.task, self.epoch), step=self.step.name)

    def is_needed(self, record: TaskRecord) -> bool:
        """Tell whether the order needs the step; one that was dispatched once is not judged again."""
        if self.step.when is None or record.task.direction is Direction.UNDO:
            return True
        if record.step(self.step.name).started_at is not None:
            return True
        return self.step.when(self._payload(record), _results(record))

    def call(self, record: TaskRecord) -> AgentCall:
        """Make the Agent's call. Raises `ValueError` for a step that is not under way."""
        complete_by = record.step(self.step.name).complete_by
        if complete_by is None:
            raise ValueError(f"task {self.task} step {self.step.name} runs without a complete-by")
        return AgentCall(
            task=self.task,
            effect_key=effect_key(self.task, self.step.name, record.task.direction),
            request=self.step.request(self._payload(record), _results(record)),
            complete_by=complete_by,
        )

    def _payload(self, record: TaskRecord) -> object:
        return self.workflow.payload.model_validate_json(record.order.payload)


def _results(record: TaskRecord) -> dict[StepName, Json]:
    return {step.name: json.loads(step.result) for step in record.steps if step.result is not None}


@dataclass(frozen=True, slots=True)
class StepReport:
    """An outcome and the steps that can start; `complete_by` is how long a request's reply is awaited."""

    outcome: Outcome
    ready: tuple[StepName, ...] = ()
    complete_by: datetime | None = None

    def progress(self, step: StepName) -> Progress:
        """Write the report of `step` in the form that crosses Durable history."""
        progress = Progress(outcome=self.outcome, ready=list(self.ready))
        if self.complete_by is not None:
            progress["step"] = step
            progress["complete_by"] = self.complete_by.isoformat()
        return progress


class Outcomes:
    """Records outcomes of steps. `start_within` is in seconds: by then what follows must have started."""

    def __init__(self, ports: Ports, start_within: float) -> None:
        self._ports = ports
        self._start_within = timedelta(seconds=start_within)

    async def completed(
        self, attempt: StepAttempt, stored: Stored, result: Mapping[str, Any], token: str | None = None
    ) -> StepReport:
        """Record the step as done; a result that no row can hold is a failure."""
        encoded = json.dumps(dict(result), separators=(",", ":"), ensure_ascii=False).encode()
        if len(encoded) > MAX_RESULT_BYTES:
            reason = f"its result has more than {MAX_RESULT_BYTES} bytes"
            return await self.failed(attempt, stored, reason, token)
        event = StepCompleted(**attempt.author, result=encoded, start_by=self._start_by(), token=token)
        return await self._record(attempt, stored, event, Outcome.COMPLETED)

    async def failed(
        self, attempt: StepAttempt, stored: Stored, reason: str, token: str | None = None
    ) -> StepReport:
        """Record the step as refused for good."""
        event = StepFailed(**attempt.author, error=reason, start_by=self._start_by(), token=token)
        return await self._record(attempt, stored, event, Outcome.FAILED)

    async def skipped(self, attempt: StepAttempt, stored: Stored) -> StepReport:
        """Record that the order does not need the step."""
        event = StepSkipped(**attempt.author, start_by=self._start_by())
        return await self._record(attempt, stored, event, Outcome.SKIPPED)

    def _start_by(self) -> datetime:
        return self._ports.clock.now() + self._start_within

    async def _record(
        self,
        attempt: StepAttempt,
        stored: Stored,
        event: StepCompleted | StepFailed | StepSkipped,
        outcome: Outcome,
    ) -> StepReport:
        recorded = await self._ports.store.change(stored, event)
        if isinstance(recorded, Refused):
            return StepReport(Outcome.STALE)
        return StepReport(outcome, ready_steps(attempt.workflow, recorded.record))
