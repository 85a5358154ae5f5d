"""One attempt at a step: what the Agent gets of the task's record."""

from __future__ import annotations

import json
from dataclasses import dataclass

from functions.pattern.definition import Json, Registry, Step, Workflow
from functions.pattern.identity import Epoch, SchedulerId, StepName, TaskId, effect_key, scheduler_id
from functions.pattern.ports import AgentCall
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction


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
    def scheduler(self) -> SchedulerId:
        """Name the Scheduler instance that makes the attempt."""
        return scheduler_id(self.task, self.epoch)

    def may_judge(self, record: TaskRecord) -> bool:
        """Tell whether the record holds the result of every step that this one needs."""
        return all(record.step(each).settled for each in self.step.needs)

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
