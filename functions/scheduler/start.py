"""Starts Scheduler instances through the Durable client of one invocation."""

from __future__ import annotations

import azure.durable_functions as df

from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, TaskId, scheduler_id
from functions.scheduler.orchestrator import SCHEDULER


class DurableSchedulers:
    """Starts instances named `{task}.{epoch}`."""

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
