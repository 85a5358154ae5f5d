"""One function with an event hub trigger: all partitions of its hub belong to this host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any
from uuid import uuid4

from functions_local.app import EventHubTrigger, Function
from functions_local.connections import ConnectionSettings
from functions_local.event_hubs.checkpoints import CONTAINER, Checkpoints, checkpoint_container
from functions_local.event_hubs.clients import hub_client
from functions_local.event_hubs.outage import Outage
from functions_local.event_hubs.partition import PartitionLoop, PartitionWork
from functions_local.host_json import EventHubsOptions
from functions_local.invocations import Invocations

_log = logging.getLogger(__name__)

#: Seconds between two requests for a hub's partitions.
_ASKING_DELAY = 1.0
#: Seconds that releasing the partitions may take when the host stops.
_RELEASING = 0.3


class EventHubListener:
    """Runs one function with the events of its hub."""

    def __init__(
        self,
        function: Function,
        trigger: EventHubTrigger,
        settings: ConnectionSettings,
        invocations: Invocations,
        options: EventHubsOptions,
    ) -> None:
        """Read the settings. Raises StartError without a usable setting for hub and storage."""
        used_by = f"function {function.name}"
        self._hub = hub = hub_client(settings, trigger, used_by)
        self._container = checkpoint_container(settings, used_by)
        folder = f"{hub.namespace}/{hub.hub}/{trigger.consumer_group}"
        self._checkpoints = Checkpoints(self._container, folder, str(uuid4()))
        self._outage = Outage(function.name, hub.hub, f"{CONTAINER}/{self._checkpoints.folder}")
        self._stopping = asyncio.Event()
        self._work = PartitionWork(
            function,
            trigger,
            hub,
            self._checkpoints,
            invocations,
            options,
            self._outage,
            self._stopping,
        )
        self._loops: list[PartitionLoop] = []
        self._running: dict[asyncio.Task[None], PartitionLoop] = {}

    async def run(self) -> None:
        """Work on all partitions until cancelled; wait until hub and storage are reachable."""
        partitions = await self._until_answered()
        self._loops = [PartitionLoop(self._work, partition) for partition in partitions]
        async with asyncio.TaskGroup() as group:
            self._running = {group.create_task(loop.run()): loop for loop in self._loops}

    def stop(self) -> None:
        """Start no new batch; a batch that ends after this call has no checkpoint."""
        self._stopping.set()
        for task, loop in self._running.items():
            if loop.is_idle:
                task.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no partition has a batch in process."""
        return all(loop.is_idle for loop in self._loops)

    async def close(self) -> None:
        """End the batches in process, release the partitions, and disconnect."""
        await asyncio.gather(*(loop.close() for loop in self._loops))
        releases = [self._checkpoints.release(loop.partition) for loop in self._loops]
        await _within(_RELEASING, [*releases, self._hub.client.close()])
        await self._container.close()

    async def _until_answered(self) -> Sequence[str]:
        while True:
            try:
                await self._checkpoints.prepare()
                partitions = await self._hub.client.get_partition_ids()
            except Exception as error:  # noqa: BLE001 - any error is retried
                self._outage.began("", error)
                await asyncio.sleep(_ASKING_DELAY)
                continue
            self._outage.ended("")
            return partitions


async def _within(seconds: float, endings: Sequence[Coroutine[Any, Any, Any]]) -> None:
    """Run all concurrently with a timeout; errors are only logged, because the host is stopping."""
    tasks = [asyncio.ensure_future(ending) for ending in endings]
    if not tasks:
        return
    done, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for task in done:
        if error := task.exception():
            _log.debug("at the end: %s", error)
