"""Answers to callers, as the API pages show them: made from each workflow's own steps."""

from __future__ import annotations

from typing import Any

from functions.api.views import location_of
from functions.pattern.definition import Workflow
from functions.pattern.identity import TaskId

#: The id under which every example's order is known.
EXAMPLE_ID = TaskId("order-1")

_SUBMITTED = "2026-11-21T12:00:00Z"
_STARTED = "2026-11-21T12:00:01Z"
_FINISHED = "2026-11-21T12:00:02Z"
_COMPLETE_BY = "2026-11-21T12:00:11Z"


def accepted_example(workflow: Workflow) -> dict[str, Any]:
    """Show what is answered to an order that is taken."""
    return {"id": EXAMPLE_ID, "location": location_of(workflow, EXAMPLE_ID)}


def order_example(workflow: Workflow) -> dict[str, Any]:
    """Show an order that is done."""
    return {
        "id": EXAMPLE_ID,
        "workflow": workflow.name,
        "state": "Processed",
        "submitted_at": _SUBMITTED,
        "finished_at": _FINISHED,
        "correlation_id": None,
        "steps": [
            {
                "name": step.name,
                "state": "Completed",
                "complete_by": _COMPLETE_BY,
                "started_at": _STARTED,
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
