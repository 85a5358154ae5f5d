"""Starts and wakes Scheduler instances through the Durable client of one invocation."""

from __future__ import annotations

import azure.durable_functions as df

from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, StepName, TaskId, scheduler_id
from functions.scheduler.orchestrator import SCHEDULER, Progress, reply_event

#: How the SDK (1.7) tells that an instance has ended, or is not known.
_NOBODY_WAITS = ("is gone", "No instance with ID")


class DurableSchedulers:
    """Knows instances by their name, `{task}.{epoch}`."""

    def __init__(self, client: df.DurableOrchestrationClient) -> None:
        self._client = client

    async def start(self, task: TaskId, epoch: Epoch) -> None:
        """Start the Scheduler of this attempt; harmless when it runs already.

        A second start is refused by the service, or makes a second run whose claim is refused. Raises
        `TransientError`; the SDK raises nothing narrower than `Exception`.
        """
        instance = scheduler_id(task, epoch)
        try:
            await self._client.start_new(SCHEDULER, instance, {"task": task, "epoch": epoch})
        except Exception as error:
            if "already exists" not in str(error):
                raise TransientError(f"Durable Functions did not start {instance}") from error

    async def wake(self, task: TaskId, epoch: Epoch, step: StepName, progress: Progress) -> None:
        """Tell the Scheduler what a reply brought; one that has ended needs no telling.

        Raises `TransientError`; the SDK raises nothing narrower than `Exception`.
        """
        instance = scheduler_id(task, epoch)
        try:
            await self._client.raise_event(instance, reply_event(step, epoch), progress)
        except Exception as error:
            if not any(text in str(error) for text in _NOBODY_WAITS):
                raise TransientError(f"Durable Functions did not tell {instance}") from error
