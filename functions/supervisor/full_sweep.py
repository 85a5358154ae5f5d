"""The full sweep, once a day: compares every task with its index rows and fixes what differs.

There should be nothing to fix; but nothing else would ever find a task that has no index row.
"""

from __future__ import annotations

import logging
from functools import partial

from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.pattern.store_ports import IndexFix, IndexRow
from functions.supervisor.damage import Damage
from functions.supervisor.sweeping import FullSweepReport, for_each

_log = logging.getLogger(__name__)

#: Rows that one request reads (Table Storage's limit).
_PAGE = 1000
_FIXES_AT_ONCE = 10
#: Seconds after which it is cut short; the host would end it after five minutes, with the process.
_LONGEST = 240
#: The figure of the heartbeat that names the shard with which the next sweep begins.
_NEXT = "next_shard"


class FullSweep:
    """Walks all shards, one after the other; it keeps the index rows of one shard in memory."""

    def __init__(self, ports: Ports, damage: Damage) -> None:
        self._ports = ports
        self._damage = damage

    async def run(self) -> FullSweepReport:
        """Compare and fix everything once, from where the last sweep was cut short."""
        report = FullSweepReport()
        shards = self._ports.index.shards
        first = await self._first(report)
        done = 0
        async with report.bounded(_LONGEST):
            for number in range(shards):
                await self._sweep_shard((first + number) % shards, report)
                done += 1
        await self._damage.report(report)
        # A shard that takes all of a sweep's time must not keep the others from having theirs.
        following = (first + max(done, 1)) % shards
        with report.surviving("heartbeat"):
            await self._ports.heartbeats.beat(Chore.FULL_SWEEP, {_NEXT: following} | report.figures())
        return report

    async def _first(self, report: FullSweepReport) -> int:
        with report.surviving("heartbeat"):
            latest = await self._ports.heartbeats.latest(Chore.FULL_SWEEP)
            return int((latest or {}).get(_NEXT, 0)) % self._ports.index.shards
        return 0

    async def _sweep_shard(self, shard: int, report: FullSweepReport) -> None:
        with report.surviving(f"shard {shard}: its indexes"):
            suspects = await self._compare(shard, report)
            await for_each(suspects.items(), partial(self._fix, report), at_once=_FIXES_AT_ONCE)

    async def _compare(self, shard: int, report: FullSweepReport) -> dict[TaskId, list[IndexRow]]:
        """Find the tasks whose index rows are not as they must be, with the rows that were seen."""
        seen: dict[TaskId, list[IndexRow]] = {}
        unindexed: dict[TaskId, list[IndexRow]] = {}
        after: str | None = None
        while True:
            page = await self._ports.index_rows.page(shard, after=after, most=_PAGE)
            report.index_rows += len(page.index_rows)
            report.tasks += len(page.task_rows)
            report.found_damaged(page.unreadable)
            for row in page.index_rows:
                seen.setdefault(row.task, []).append(row)
            for task in page.task_rows:
                rows = seen.get(task.task, [])
                if [row.key for row in rows] == [task.index_key] and not rows[0].damaged:
                    del seen[task.task]
                else:
                    unindexed.setdefault(task.task, [])
            after = page.continuation
            if after is None:
                return unindexed | seen

    async def _fix(self, report: FullSweepReport, suspect: tuple[TaskId, list[IndexRow]]) -> None:
        """Look again: the task may have changed while its shard was read."""
        task, seen = suspect
        with report.surviving(f"task {task}: its index row"):
            stored = await self._ports.store.load(task)
            if stored is not None:
                self._count(report, task, await self._ports.index_rows.fix(stored, seen))
                return
            for orphan in seen:
                self._count(report, task, await self._ports.index_rows.remove(orphan))

    def _count(self, report: FullSweepReport, task: TaskId, fix: IndexFix) -> None:
        report.created += fix.created
        report.deleted += fix.deleted
        if fix != IndexFix():
            _log.warning("task %s: index rows created %d, deleted %d", task, fix.created, fix.deleted)
