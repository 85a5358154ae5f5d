"""The public names for authors of workflows: steps, workflows and their options."""

from __future__ import annotations

from functions.core.definition.definition_checks import DefinitionError
from functions.core.definition.step_definition import (
    EventStep,
    Json,
    QueueStep,
    Results,
    Retry,
    Step,
    TimerStep,
    WorkflowStep,
)
from functions.core.definition.workflow_definition import Workflow
from functions.core.json_values import PLAIN_NUMBER

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


def minutes(number: float) -> float:
    """Return minutes in seconds."""
    return number * 60


def hours(number: float) -> float:
    """Return hours in seconds."""
    return number * 3_600


def days(number: float) -> float:
    """Return days in seconds."""
    return number * 86_400
