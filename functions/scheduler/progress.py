"""What a Scheduler is told of a step, in the form that crosses Durable history."""

from __future__ import annotations

from functions.pattern.identity import StepName
from functions.scheduler.orchestrator import Progress
from functions.scheduler.outcomes import StepReport


def progress_of(step: StepName, report: StepReport) -> Progress:
    """Write a report of `step` as JSON can hold it."""
    progress = Progress(outcome=report.outcome, ready=list(report.ready))
    if report.complete_by is not None:
        progress["step"] = step
        progress["complete_by"] = report.complete_by.isoformat()
    return progress
