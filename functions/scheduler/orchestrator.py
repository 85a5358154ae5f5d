"""The orchestrator `scheduler`: claim, then run what is ready until nothing is.

It plans nothing and reads no clock: activities read and write the task's rows, and tell it the names
of the steps that can start. What crosses Durable history is ids, step names and outcomes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

SCHEDULER = "scheduler"
CLAIM_ACTIVITY = "claim"
RUN_STEP_ACTIVITY = "run_step"


def run_task(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
    """Run one attempt at a task. Input: `{"task": id, "epoch": number}`.

    Independent steps run side by side. A step that did not complete makes nothing ready, so the rest
    is not dispatched; the steps under way are waited for. Activities never raise.
    """
    attempt = context.get_input()
    claimed = yield context.call_activity(CLAIM_ACTIVITY, attempt)
    ready: list[str] = claimed["ready"]
    dispatched: set[str] = set()
    running: list[Any] = []
    outcome = "claimed" if claimed["taken"] else "not claimed"
    while True:
        for step in ready:
            if step not in dispatched:
                dispatched.add(step)
                running.append(context.call_activity(RUN_STEP_ACTIVITY, {**attempt, "step": step}))
        if not running:
            return outcome
        finished = yield context.task_any(running)
        running.remove(finished)
        ready = finished.result["ready"]
        outcome = finished.result["outcome"]
