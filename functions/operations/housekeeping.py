"""Deletes finished tasks (none in `Error`), their Scheduler instances and other old rows."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from zlib import crc32

import azure.durable_functions as df

from functions.pattern.definition import Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import (
    FIRST_EPOCH,
    Epoch,
    Parent,
    SchedulerId,
    TaskId,
    is_child,
    scheduler_id,
)
from functions.pattern.ports import Ports
from functions.pattern.records import Task, TaskRecord
from functions.pattern.shared_rows import Chore
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from functions.pattern.waiting import within
from functions.supervisor.damage import Damage
from functions.supervisor.sweeping import Report, for_each
from functions.telemetry.instruments import RETENTION_BEHIND

#: Seconds after which a run is cut short; the host would end it after five minutes, with the process.
_RUN_SECONDS = 240

_NEXT = "next_shard"

#: Seconds that one task may take.
_PURGE_SECONDS = 60

_log = logging.getLogger(__name__)


#: Purges a Scheduler instance, and tells whether it is gone; one that never was is gone.
type PurgeInstance = Callable[[SchedulerId], Awaitable[bool]]


def check_retention(workflows: Iterable[Workflow], retention_days: float) -> None:
    """Refuse a workflow whose callers may cancel what is deleted by then. Raises `DefinitionError`."""
    kept = timedelta(days=retention_days).total_seconds()
    for workflow in workflows:
        if workflow.cancel_within is not None and workflow.cancel_within > kept:
            raise DefinitionError(
                f"workflow '{workflow.name}': cancel_within is {workflow.cancel_within:.0f} seconds, but what"
                f" has ended is deleted after {kept:.0f} (RETENTION_DAYS={retention_days:g}): shorten the"
                " one, or raise the other"
            )


async def purge_durable_instance(client: df.DurableOrchestrationClient, scheduler: SchedulerId) -> bool:
    """Purge through the Durable client; an instance that still runs is terminated, and purged another day."""
    try:
        await client.purge_instance_history(scheduler)
    except Exception:  # noqa: BLE001 - the SDK raises nothing narrower
        await client.terminate(scheduler, "its task is finished and being purged")
        return False
    return True


@dataclass(slots=True)
class Purge(Report):
    """A run's tasks, purged or left; `behind_seconds` is the longest time past retention, children aside."""

    tasks: int = 0
    left: int = 0
    behind_seconds: float = 0


class Housekeeping:
    """Purges tasks past their retention, as fast as it can, for a few minutes; the next run goes on."""

    def __init__(self, ports: Ports, retention_days: float, damage: Damage) -> None:
        self._ports = ports
        self._retention = timedelta(days=retention_days)
        self._damage = damage

    async def run(self, purge_instance: PurgeInstance) -> Purge:
        """Delete until nothing is left or the time is over, and leave the figures."""
        started_at = self._ports.clock.now()
        before = started_at - self._retention
        purge, shards_at_once = Purge(), 4
        first = await self._first(purge)
        async with purge.bounded(_RUN_SECONDS):
            tasks = _Tasks(self._ports, started_at, before, purge_instance, purge)
            await tasks.delete(first, shards_at_once)
        await self._damage.report(purge)
        RETENTION_BEHIND.set(purge.behind_seconds)
        following = (first + shards_at_once) % self._ports.index.shards
        times = {"started_at": started_at, "finished_at": self._ports.clock.now()}
        with purge.surviving("heartbeat"):
            figures = times | {_NEXT: following} | purge.figures()
            await self._ports.heartbeats.beat(Chore.HOUSEKEEPING, figures)
        level = logging.WARNING if purge.unfinished or purge.failures else logging.INFO
        _log.log(level, "housekeeping %s", purge)
        return purge

    async def _first(self, purge: Purge) -> int:
        """Begin with other shards each time: a run may be cut short."""
        with purge.surviving("heartbeat"):
            latest = await self._ports.heartbeats.latest(Chore.HOUSEKEEPING)
            return int((latest or {}).get(_NEXT, 0))
        return 0


class _Tasks:
    """The finished tasks of one run: those that finished `before` that time (UTC) are purged."""

    def __init__(
        self,
        ports: Ports,
        started_at: datetime,
        before: datetime,
        purge_instance: PurgeInstance,
        purge: Purge,
    ) -> None:
        self._ports = ports
        self._started_at = started_at
        self._before = before
        self._purge_instance = purge_instance
        self._purge = purge

    async def delete(self, first: int, shards_at_once: int) -> None:
        """Purge them, those that are longest past their retention first, and from one shard on.

        Finished tasks are indexed latest first. They are purged in slices by hours past retention, the oldest
        slice first, so that a run that does not reach the end leaves the youngest.
        """
        shards = self._ports.index.shards
        in_turn = [(first + number) % shards for number in range(shards)]
        in_turn = [shard for shard in in_turn if await self._has_any(shard)]
        for oldest, youngest in pairwise((math.inf, 4096, 1024, 256, 64, 16, 4, 1, 0)):
            since = None if oldest == math.inf else self._before - timedelta(hours=oldest)
            delete_slice = partial(self._delete_slice, since, self._before - timedelta(hours=youngest))
            await for_each(in_turn, delete_slice, at_once=shards_at_once)

    async def _has_any(self, shard: int) -> bool:
        with self._purge.surviving(f"shard {shard}: its finished tasks"):
            page = await self._ports.index.page(Index.DONE, shard, until=self._before, most=1)
            return bool(page.entries or page.unreadable or page.continuation)
        return False

    async def _delete_slice(self, since: datetime | None, until: datetime, shard: int) -> None:
        after: str | None = None
        with self._purge.surviving(f"shard {shard}: its finished tasks"):
            while True:
                page = await self._ports.index.page(
                    Index.DONE, shard, since=since, until=until, after=after, most=100
                )
                self._purge.found_damaged(page.unreadable)
                entries = [each for each in page.entries if _is_in_turn(each.task, self._started_at)]
                await for_each(entries, self._delete_entry, at_once=20)
                after = page.continuation
                if after is None:
                    return

    async def _delete_entry(self, entry: IndexEntry) -> None:
        purge, gone = self._purge, False
        with purge.surviving(f"task {entry.task}: not purged"):
            gone = await within(_PURGE_SECONDS, self._delete_task(entry.task))
        if not gone:
            purge.left += 1
            return
        purge.tasks += 1
        if not is_child(entry.task):  # which has waited for its parent to go
            purge.behind_seconds = max(purge.behind_seconds, (self._before - entry.at).total_seconds())

    async def _delete_task(self, task: TaskId) -> bool:
        """Purge a task, its instances first: as long as its rows are there, they can be named."""
        stored = await self._ports.store.load(task)
        if stored is None or not _is_purgeable(stored.record.task, self._before):
            return False  # the index is wrong, which the full sweep corrects
        if await self._is_needed(stored.record.order.parent):
            return False
        gone: list[bool] = []

        async def purge(scheduler: SchedulerId) -> None:
            gone.append(await self._purge_instance(scheduler))

        # A task that was put off for days has thousands.
        await for_each(schedulers_of(stored.record), purge, at_once=10)
        return all(gone) and await self._ports.retention.delete(stored)

    async def _is_needed(self, parent: Parent | None) -> bool:
        order = None if parent is None else await self._ports.store.order(parent.task)
        return parent is not None and order is not None and order.birth == parent.birth


def _is_in_turn(task: TaskId, started_at: datetime) -> bool:
    """Return whether a run looks at a task: at a child once a day, as its parent may need it for a year."""
    run_seconds, runs_a_day = 300, 288
    run_of_day = int(started_at.timestamp() / run_seconds) % runs_a_day
    return not is_child(task) or crc32(task.encode()) % runs_a_day == run_of_day


def schedulers_of(record: TaskRecord) -> Iterator[SchedulerId]:
    """Name the instances of all runs in all epochs."""
    runs = {closed.epoch: closed.run for closed in record.history} | {record.task.epoch: record.task.run}
    for epoch in range(FIRST_EPOCH, record.task.epoch + 1):
        later = range(1, (runs.get(Epoch(epoch)) or 0) + 1)
        for run in (None, *later):
            yield scheduler_id(record.order.task, Epoch(epoch), run)


def _is_purgeable(task: Task, before: datetime) -> bool:
    is_ended = task.process_state in {ProcessState.PROCESSED, ProcessState.COMPENSATED}
    return is_ended and task.finished_at is not None and task.finished_at < before


@dataclass(slots=True)
class Deleted(Report):
    """The numbers of deleted rows: rejected messages, Agents' requests, counts of tasks."""

    rejected: int = 0
    requests: int = 0
    counts: int = 0


class OldRows:
    """Deletes them as fast as it can, for a few minutes; the next run goes on."""

    def __init__(self, ports: Ports, retention_days: float) -> None:
        self._ports = ports
        self._retention = timedelta(days=retention_days)

    async def run(self) -> Deleted:
        """Delete until nothing is left or the time is over, and log one line."""
        now, deleted = self._ports.clock.now(), Deleted()
        async with deleted.bounded(_RUN_SECONDS):
            await self._delete(now, deleted)
        level = logging.WARNING if deleted.unfinished or deleted.failures else logging.INFO
        _log.log(level, "old rows %s", deleted)
        return deleted

    async def _delete(self, now: datetime, deleted: Deleted) -> None:
        """Delete some at a time, until there are none; the console shows the counts of the last hour."""
        before, counts_before, most_rows = now - self._retention, now - timedelta(hours=2), 5_000
        with deleted.surviving("rejected messages"):
            while count := await self._ports.rejected.delete_before(before, most_rows):
                deleted.rejected += count
        with deleted.surviving("Agents' requests"):
            while count := await self._ports.agent_requests.delete_before(before, most_rows):
                deleted.requests += count
        with deleted.surviving("counts of tasks"):
            while count := await self._ports.minute_counts.delete_before(counts_before, most_rows):
                deleted.counts += count
