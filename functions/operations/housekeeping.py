"""Housekeeping: finished tasks are purged after their retention, with their Scheduler instances.

Started by a timer. Tasks in `Error` wait for an operator and stay, whatever their age.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Protocol

import azure.durable_functions as df

from functions.pattern.identity import FIRST_EPOCH, Epoch, SchedulerId, TaskId, scheduler_id
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index

#: Tasks, and rejected messages, that one run deletes at most; the next run goes on.
_MOST_TASKS = 5_000
_MOST_REJECTED = 1_000

#: Tasks that are purged side by side.
_PAGE = 20

#: Finished tasks are indexed latest first; they are purged in slices of so many days past retention, the
#: oldest slice first, so that a run that does not reach the end leaves the youngest.
_SLICES = (math.inf, 64, 16, 4, 1, 0)

_PURGEABLE = frozenset({ProcessState.PROCESSED, ProcessState.COMPENSATED})

_log = logging.getLogger(__name__)


class SchedulerInstances(Protocol):
    """Deletes Scheduler instances."""

    async def purge(self, scheduler: SchedulerId) -> bool:
        """Purge an instance, and tell whether it is gone; one that never was is gone."""


class DurableInstances:
    """Deletes Scheduler instances through the Durable client of one invocation."""

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


@dataclass(slots=True)
class Purge:
    """What a run came to: tasks purged, tasks left for another run, rejected messages deleted."""

    tasks: int = 0
    left: int = 0
    rejected: int = 0


class Housekeeping:
    """Purges what finished more than `retention_days` ago."""

    def __init__(self, ports: Ports, retention_days: float) -> None:
        self._ports = ports
        self._retention = timedelta(days=retention_days)

    async def run(self, instances: SchedulerInstances, *, most: int = _MOST_TASKS) -> Purge:
        """Purge up to about `most` tasks, each shard its part of them.

        Raises `TransientError` when the store fails; the next run goes on from there.
        """
        before = self._ports.clock.now() - self._retention
        purge = Purge()
        shards = self._ports.index.shards
        for shard in range(shards):
            await self._purge_shard(shard, before, math.ceil(most / shards), instances, purge)
        purge.rejected = await self._ports.rejected.delete_before(before, _MOST_REJECTED)
        _log.info(
            "housekeeping: %d tasks purged, %d left, %d rejected messages deleted",
            purge.tasks,
            purge.left,
            purge.rejected,
        )
        return purge

    async def _purge_shard(
        self, shard: int, before: datetime, most: int, instances: SchedulerInstances, purge: Purge
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
                tasks = (self._purge_task(each.task, before, instances) for each in page.entries)
                gone = await asyncio.gather(*tasks)
                purge.tasks += gone.count(True)
                purge.left += gone.count(False)
                most -= len(gone)
                after = page.continuation
                if after is None:
                    break

    async def _purge_task(self, task: TaskId, before: datetime, instances: SchedulerInstances) -> bool:
        """Purge a task, its instances first: as long as its rows are there, they can be named."""
        try:
            stored = await self._ports.store.load(task)
            if stored is None or not _is_purgeable(stored.record, before):
                return False  # the index is wrong, which the full sweep corrects
            if not await _purge_instances(stored.record, instances):
                return False
            return await self._ports.retention.delete(stored)
        except Exception:  # noqa: BLE001 - one task's failure never stops the others
            _log.exception("task %s: not purged, the next run tries again", task)
            return False


def _is_purgeable(record: TaskRecord, before: datetime) -> bool:
    task = record.task
    return task.process_state in _PURGEABLE and task.finished_at is not None and task.finished_at < before


async def _purge_instances(record: TaskRecord, instances: SchedulerInstances) -> bool:
    epochs = range(FIRST_EPOCH, record.task.epoch + 1)
    gone = [await instances.purge(scheduler_id(record.order.task, Epoch(epoch))) for epoch in epochs]
    return all(gone)
