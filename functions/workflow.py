"""The public names for authors of workflows: steps, workflows and their options."""

from __future__ import annotations

from functions.core.step_definition import (
    EventStep,
    Json,
    QueueStep,
    Results,
    Retry,
    Step,
    TimerStep,
    WorkflowStep,
    days,
    hours,
    minutes,
)
from functions.core.workflow_definition import DefinitionError, Workflow
from functions.web.plain_numbers import PLAIN_NUMBER

__all__ = [
    "PLAIN_NUMBER",
    "DefinitionError",
    "EventStep",
    "Json",
    "QueueStep",
    "Results",
    "Retry",
    "Step",
    "TimerStep",
    "Workflow",
    "WorkflowStep",
    "days",
    "hours",
    "minutes",
]
