"""The orchestrator `scheduler`: claim, then run what is ready until nothing is.

It plans nothing and reads no clock: activities read and write the task's rows, and tell it the names
of the steps that can start. What crosses Durable history is ids, step names and outcomes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypedDict

import azure.durable_functions as df

SCHEDULER = "scheduler"
CLAIM_ACTIVITY = "claim"
RUN_STEP_ACTIVITY = "run_step"


class Attempt(TypedDict):
    """Which attempt at which task: the input of a Scheduler instance."""

    task: str
    epoch: int


class Turn(Attempt):
    """Which step of an attempt to run."""

    step: str


class Progress(TypedDict):
    """What an activity tells the orchestrator: what came of it, and the steps that can start."""

    outcome: str
    ready: list[str]


def run_task(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
    """Run one attempt at a task, whose `Attempt` is the instance's input.

    Independent steps run side by side. A step that did not complete makes nothing ready, so the rest
    is not dispatched; the steps under way are waited for. Activities never raise.
    """
    attempt: Attempt = context.get_input()
    progress: Progress = yield context.call_activity(CLAIM_ACTIVITY, attempt)
    dispatched: set[str] = set()
    running: list[Any] = []
    while True:
        for step in progress["ready"]:
            if step not in dispatched:
                dispatched.add(step)
                running.append(context.call_activity(RUN_STEP_ACTIVITY, Turn(**attempt, step=step)))
        if not running:
            return progress["outcome"]
        finished = yield context.task_any(running)
        running.remove(finished)
        progress = finished.result
