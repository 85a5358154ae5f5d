"""The orchestrator `scheduler`: claim, then run what is ready until nothing is; and how it is started.

Activities read and write the task's rows. Durable history has ids, step names, outcomes and times only.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from datetime import datetime
from typing import Any, NotRequired, TypedDict

import azure.durable_functions as df

from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, StepName, TaskId, scheduler_id

SCHEDULER = "scheduler"
CLAIM_ACTIVITY = "claim"
RUN_STEP_ACTIVITY = "run_step"
EXPIRED = "expired"

#: How the SDK (1.7) tells that an instance has ended, or is not known.
_HAS_ENDED = ("is gone", "No instance with ID")


class SchedulerInput(TypedDict):
    """Which epoch of which task a Scheduler instance runs."""

    task: str
    epoch: int


class RunStepInput(SchedulerInput):
    """Which step the activity runs."""

    step: str


class Progress(TypedDict):
    """A step's outcome and the steps that can start; a reply to `step` counts until `complete_by` (UTC)."""

    outcome: str
    ready: list[str]
    step: NotRequired[str]
    complete_by: NotRequired[str]


def reply_event(step: str, epoch: int) -> str:
    """Name the event of a reply; a name used twice would give one wait the other's event."""
    return f"reply:{step}:{epoch}"


def run_task(context: df.DurableOrchestrationContext) -> Generator[Any, Any, str]:
    """Run one epoch of a task; the instance's input is a `SchedulerInput`. Activities never raise.

    A step that did not complete makes nothing ready; the steps under way are waited for.
    """
    given: SchedulerInput = context.get_input()
    progress: Progress = yield context.call_activity(CLAIM_ACTIVITY, given)
    steps = _RunningSteps(context, given)
    while True:
        steps.begin(progress["ready"])
        if not steps.running:
            return progress["outcome"]
        finished = yield context.task_any(steps.running)
        progress = steps.end(finished)


class _RunningSteps:
    """The steps under way: each waits for its activity, then perhaps for a reply and its time limit."""

    def __init__(self, context: df.DurableOrchestrationContext, given: SchedulerInput) -> None:
        self.running: list[Any] = []
        self._context = context
        self._given = given
        self._dispatched: dict[str, Any] = {}
        self._limits: dict[Any, Any] = {}
        self._replies: dict[Any, Any] = {}

    def begin(self, ready: list[str]) -> None:
        """Dispatch the steps that were never dispatched in this epoch."""
        for step in ready:
            if step not in self._dispatched:
                wanted = RunStepInput(**self._given, step=step)
                self._dispatched[step] = self._context.call_activity(RUN_STEP_ACTIVITY, wanted)
                self.running.append(self._dispatched[step])

    def end(self, finished: Any) -> Progress:
        """Remove what ended, and give its outcome."""
        self.running.remove(finished)
        if finished in self._limits:
            limit = self._limits[finished]
            self.running.remove(limit)
            if not limit.is_completed:
                limit.cancel()  # a timer keeps the instance from ending
            # The SDK (1.7) hands an event's payload over as JSON text.
            reply: Progress = (
                json.loads(finished.result) if isinstance(finished.result, str) else finished.result
            )
            return reply
        if finished in self._replies:
            self.running.remove(self._replies[finished])
            return Progress(outcome=EXPIRED, ready=[])
        progress: Progress = finished.result
        if "complete_by" in progress:
            self._await_reply(progress["step"], datetime.fromisoformat(progress["complete_by"]))
        return progress

    def _await_reply(self, step: str, complete_by: datetime) -> None:
        reply = self._context.wait_for_external_event(reply_event(step, self._given["epoch"]))
        limit = self._context.create_timer(complete_by)
        self._limits[reply] = limit
        self._replies[limit] = reply
        self.running += [reply, limit]


class DurableSchedulers:
    """Starts and wakes instances, named `{task}.{epoch}`, through the Durable client of one invocation."""

    def __init__(self, client: df.DurableOrchestrationClient) -> None:
        self._client = client

    async def start(self, task: TaskId, epoch: Epoch) -> None:
        """Start the Scheduler of this epoch. Raises `TransientError`.

        A second start is refused by the service, or makes a second run whose claim is refused.
        """
        instance = scheduler_id(task, epoch)
        try:
            await self._client.start_new(SCHEDULER, instance, {"task": task, "epoch": epoch})
        except Exception as error:  # the SDK raises nothing narrower
            if "already exists" not in str(error):
                raise TransientError(f"Durable Functions did not start {instance}") from error

    async def wake(self, task: TaskId, epoch: Epoch, step: StepName, progress: Mapping[str, Any]) -> None:
        """Send the Scheduler what a reply brought; harmless when it has ended. Raises `TransientError`."""
        instance = scheduler_id(task, epoch)
        try:
            await self._client.raise_event(instance, reply_event(step, epoch), progress)
        except Exception as error:  # as above
            if not any(text in str(error) for text in _HAS_ENDED):
                raise TransientError(f"Durable Functions did not wake {instance}") from error
