"""What callers are shown of an order, and examples of it for the API pages, by each workflow's steps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from functions.pattern.definition import Workflow
from functions.pattern.identity import TaskId
from functions.pattern.states import ProcessState
from functions.web.problems import Problem
from functions.web.views import StepView, read_from

#: The id of the order in every example.
EXAMPLE_ID = TaskId("order-1")

_FINISHED = "2026-11-21T12:00:02Z"


class OrderView(BaseModel):
    """How far an order is, read from its task's record; times are UTC."""

    model_config = ConfigDict(from_attributes=True)

    id: str = read_from("order", "task")
    workflow: str = read_from("order", "workflow")
    state: ProcessState = read_from("task", "process_state")
    submitted_at: datetime = read_from("order", "submitted_at")
    finished_at: datetime | None = read_from("task", "finished_at")
    correlation_id: str | None = read_from("order", "correlation_id")
    steps: list[StepView]
    last_error: str | None = read_from("task", "last_error")


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


def accepted_example(workflow: Workflow) -> dict[str, Any]:
    """Show what is answered to an order that is taken."""
    return {"id": EXAMPLE_ID, "location": location_of(workflow, EXAMPLE_ID)}


def order_example(workflow: Workflow) -> dict[str, Any]:
    """Show an order that is done."""
    return {
        "id": EXAMPLE_ID,
        "workflow": workflow.name,
        "state": "Processed",
        "submitted_at": "2026-11-21T12:00:00Z",
        "finished_at": _FINISHED,
        "correlation_id": None,
        "steps": [
            {
                "name": step.name,
                "state": "Completed",
                "complete_by": "2026-11-21T12:00:11Z",
                "started_at": "2026-11-21T12:00:01Z",
                "finished_at": _FINISHED,
                "error": None,
            }
            for step in workflow.steps
        ],
        "last_error": None,
    }


def batch_example(workflow: Workflow) -> dict[str, Any]:
    """Show a batch of which one order is taken and one is not."""
    refusal = {
        "type": "about:blank",
        "title": "Unprocessable Content",
        "status": 422,
        "detail": "Some fields are wrong; errors names them, up to 50.",
        "errors": [{"field": "priority", "reason": "Extra inputs are not permitted"}],
    }
    return {
        "results": [
            {"index": 0, "status": 202, **accepted_example(workflow)},
            {"index": 1, "status": 422, "problem": refusal},
        ]
    }
