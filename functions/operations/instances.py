"""Purges Scheduler instances through the Durable client of one invocation."""

from __future__ import annotations

import azure.durable_functions as df

from functions.pattern.identity import SchedulerId


class DurableInstances:
    """Deletes the history of instances that nobody needs any more."""

    def __init__(self, client: df.DurableOrchestrationClient) -> None:
        self._client = client

    async def purge(self, scheduler: SchedulerId) -> bool:
        """Purge an instance, and tell whether it is gone; one that never was is gone.

        An instance that still runs can't be purged (it may seem to run for ever: durabletask #1046). It
        is terminated, to be purged another day.
        """
        try:
            await self._client.purge_instance_history(scheduler)
        except Exception:  # noqa: BLE001 - the SDK raises nothing narrower
            await self._client.terminate(scheduler, "its task is finished and being purged")
            return False
        return True
