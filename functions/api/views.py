"""What callers are shown of an order."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from functions.pattern.definition import Workflow
from functions.pattern.identity import TaskId
from functions.pattern.records import StepRecord, TaskRecord
from functions.pattern.states import ProcessState, StepState
from functions.web.problems import Problem


class StepView(BaseModel):
    """How far one step is; times are UTC."""

    name: str
    state: StepState
    complete_by: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None

    @classmethod
    def of(cls, step: StepRecord) -> StepView:
        """Show a step."""
        return cls(
            name=step.name,
            state=step.state,
            complete_by=step.complete_by,
            started_at=step.started_at,
            finished_at=step.finished_at,
            error=step.error,
        )


class OrderView(BaseModel):
    """How far an order is; times are UTC."""

    id: str
    workflow: str
    state: ProcessState
    submitted_at: datetime
    finished_at: datetime | None
    correlation_id: str | None
    steps: list[StepView]
    last_error: str | None

    @classmethod
    def of(cls, record: TaskRecord) -> OrderView:
        """Show a task's record."""
        return cls(
            id=record.order.task,
            workflow=record.order.workflow,
            state=record.task.process_state,
            submitted_at=record.order.submitted_at,
            finished_at=record.task.finished_at,
            correlation_id=record.order.correlation_id,
            steps=[StepView.of(step) for step in record.steps],
            last_error=record.task.last_error,
        )


def location_of(workflow: Workflow, task: TaskId) -> str:
    """Give the path at which an order can be followed."""
    return f"/api/{workflow.resource}/{task}"


class Accepted(BaseModel):
    """The order is taken; `location` tells how far it is."""

    id: str
    location: str


class OrderAnswer(BaseModel):
    """What became of one order of a batch; `index` counts from 0. Either `location` or `problem` is there."""

    index: int
    status: int
    id: str | None = None
    location: str | None = None
    problem: Problem | None = None


class BatchAnswer(BaseModel):
    """What became of each order of a batch, in the batch's order."""

    results: list[OrderAnswer]
