"""Purges finished tasks after their retention, with their Scheduler instances; tasks in `Error` stay."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import azure.durable_functions as df

from functions.pattern.identity import FIRST_EPOCH, Epoch, SchedulerId, TaskId, scheduler_id
from functions.pattern.ports import Ports
from functions.pattern.records import Task
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index

#: Tasks, rejected messages and Agents' requests that one run deletes at most; the next run goes on.
_MOST_TASKS = 5_000
_MOST_REJECTED = 1_000
_MOST_REQUESTS = 50_000

#: Tasks that are purged side by side.
_PAGE = 20

#: Finished tasks are indexed latest first; they are purged in slices of so many days past retention, the
#: oldest slice first, so that a run that does not reach the end leaves the youngest.
_SLICES = (math.inf, 64, 16, 4, 1, 0)

_PURGEABLE = frozenset({ProcessState.PROCESSED, ProcessState.COMPENSATED})

_log = logging.getLogger(__name__)


#: Purges a Scheduler instance, and tells whether it is gone; one that never was is gone.
type PurgeInstance = Callable[[SchedulerId], Awaitable[bool]]


async def purge_durable_instance(client: df.DurableOrchestrationClient, scheduler: SchedulerId) -> bool:
    """Do as `PurgeInstance` says, through the Durable client of one invocation.

    An instance that still runs can't be purged (it may seem to run for ever: durabletask #1046). It is
    terminated, to be purged another day.
    """
    try:
        await client.purge_instance_history(scheduler)
    except Exception:  # noqa: BLE001 - the SDK raises nothing narrower
        await client.terminate(scheduler, "its task is finished and being purged")
        return False
    return True


@dataclass(slots=True)
class Purge:
    """What a run came to: tasks purged, tasks left for another run, messages and Agents' requests deleted."""

    tasks: int = 0
    left: int = 0
    rejected: int = 0
    requests: int = 0


class Housekeeping:
    """Purges what finished more than `retention_days` ago."""

    def __init__(self, ports: Ports, retention_days: float) -> None:
        self._ports = ports
        self._retention = timedelta(days=retention_days)

    async def run(self, purge_instance: PurgeInstance, *, most: int = _MOST_TASKS) -> Purge:
        """Purge up to about `most` tasks, each shard its part of them.

        Raises `TransientError` when the store fails; the next run goes on from there.
        """
        before = self._ports.clock.now() - self._retention
        purge, shards = Purge(), self._ports.index.shards
        for shard in range(shards):
            await self._purge_shard(shard, before, math.ceil(most / shards), purge_instance, purge)
        purge.rejected = await self._ports.rejected.delete_before(before, _MOST_REJECTED)
        purge.requests = await self._ports.agent_requests.delete_before(before, _MOST_REQUESTS)
        text = "housekeeping: %d tasks purged, %d left; deleted: %d rejected messages, %d Agents' requests"
        _log.info(text, purge.tasks, purge.left, purge.rejected, purge.requests)
        return purge

    async def _purge_shard(
        self, shard: int, before: datetime, most: int, purge_instance: PurgeInstance, purge: Purge
    ) -> None:
        for oldest, youngest in pairwise(_SLICES):
            since = None if oldest == math.inf else before - timedelta(days=oldest)
            until = before - timedelta(days=youngest)
            after: str | None = None
            while most > 0:
                size = min(_PAGE, most)
                page = await self._ports.index.page(
                    Index.DONE, shard, since=since, until=until, after=after, most=size
                )
                tasks = (self._purge_task(each.task, before, purge_instance) for each in page.entries)
                gone = await asyncio.gather(*tasks)
                purge.tasks += gone.count(True)
                purge.left += gone.count(False)
                most -= len(gone)
                after = page.continuation
                if after is None:
                    break

    async def _purge_task(self, task: TaskId, before: datetime, purge_instance: PurgeInstance) -> bool:
        """Purge a task, its instances first: as long as its rows are there, they can be named."""
        try:
            stored = await self._ports.store.load(task)
            if stored is None or not _is_purgeable(stored.record.task, before):
                return False  # the index is wrong, which the full sweep corrects
            epochs = range(FIRST_EPOCH, stored.record.task.epoch + 1)
            gone = [await purge_instance(scheduler_id(task, Epoch(epoch))) for epoch in epochs]
            return all(gone) and await self._ports.retention.delete(stored)
        except Exception:  # noqa: BLE001 - one task's failure never stops the others
            _log.exception("task %s: not purged, the next run tries again", task)
            return False


def _is_purgeable(task: Task, before: datetime) -> bool:
    return task.process_state in _PURGEABLE and task.finished_at is not None and task.finished_at < before
