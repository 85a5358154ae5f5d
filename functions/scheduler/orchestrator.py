"""The orchestrator `scheduler`: claim, then run what is ready until nothing is.

It plans nothing and reads no clock: activities read and write the task's rows, and tell it the names
of the steps that can start. What crosses Durable history is ids, step names, outcomes and times.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import datetime
from typing import Any, NotRequired, TypedDict

import azure.durable_functions as df

SCHEDULER = "scheduler"
CLAIM_ACTIVITY = "claim"
RUN_STEP_ACTIVITY = "run_step"
EXPIRED = "expired"


class Attempt(TypedDict):
    """Which attempt at which task: the input of a Scheduler instance."""

    task: str
    epoch: int


class Turn(Attempt):
    """Which step of an attempt to run."""

    step: str


class Progress(TypedDict):
    """What the orchestrator is told: what came of a step, and the steps that can start.

    When a request is on its way, `complete_by` (UTC, ISO 8601) is until when the reply to `step` counts.
    """

    outcome: str
    ready: list[str]
    step: NotRequired[str]
    complete_by: NotRequired[str]


def reply_event(step: str, epoch: int) -> str:
    """Name the event of a reply; never the same twice, for Durable would give one wait the other's event."""
    return f"reply:{step}:{epoch}"


def run_task(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
    """Run one attempt at a task, whose `Attempt` is the instance's input.

    Independent steps run side by side. A step that did not complete makes nothing ready, so the rest
    is not dispatched; the steps under way are waited for. Activities never raise.
    """
    attempt: Attempt = context.get_input()
    progress: Progress = yield context.call_activity(CLAIM_ACTIVITY, attempt)
    steps = _RunningSteps(context, attempt)
    while True:
        steps.begin(progress["ready"])
        if not steps.running:
            return progress["outcome"]
        finished = yield context.task_any(steps.running)
        progress = steps.end(finished)


class _RunningSteps:
    """The steps under way: each waits for its activity, then perhaps for a reply and its time limit."""

    def __init__(self, context: df.DurableOrchestrationContext, attempt: Attempt) -> None:
        self.running: list[Any] = []
        self._context = context
        self._attempt = attempt
        self._dispatched: dict[str, Any] = {}
        self._limits: dict[Any, Any] = {}
        self._replies: dict[Any, Any] = {}

    def begin(self, ready: list[str]) -> None:
        """Dispatch the steps that were never dispatched in this attempt."""
        for step in ready:
            if step not in self._dispatched:
                turn = Turn(**self._attempt, step=step)
                self._dispatched[step] = self._context.call_activity(RUN_STEP_ACTIVITY, turn)
                self.running.append(self._dispatched[step])

    def end(self, finished: Any) -> Progress:
        """Take what ended, and tell what came of it."""
        self.running.remove(finished)
        if finished in self._limits:
            self._drop_limit(self._limits[finished])
            reply: Progress = _decoded(finished.result)
            return reply
        if finished in self._replies:
            self.running.remove(self._replies[finished])
            return Progress(outcome=EXPIRED, ready=[])
        progress: Progress = finished.result
        if "complete_by" in progress:
            self._await_reply(progress["step"], datetime.fromisoformat(progress["complete_by"]))
        return progress

    def _await_reply(self, step: str, complete_by: datetime) -> None:
        reply = self._context.wait_for_external_event(reply_event(step, self._attempt["epoch"]))
        limit = self._context.create_timer(complete_by)
        self._limits[reply] = limit
        self._replies[limit] = reply
        self.running += [reply, limit]

    def _drop_limit(self, limit: Any) -> None:
        """Cancel a timer: one that is not keeps the instance from ending."""
        self.running.remove(limit)
        if not limit.is_completed:
            limit.cancel()


def _decoded(payload: Any) -> Any:
    """Read an event's payload, which the SDK (1.7) hands over as JSON text."""
    return json.loads(payload) if isinstance(payload, str) else payload
