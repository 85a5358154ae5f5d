"""The full sweep, once a day: compares every task with its index rows and fixes what differs.

There should be nothing to fix; but nothing else would ever find a task that has no index row.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from functools import partial

from functions.pattern.identity import TaskId
from functions.pattern.index_rows import IndexFix, IndexRow, TaskRow, row_order
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.supervisor.course import Course
from functions.supervisor.damage import Damage
from functions.supervisor.sweeping import FullSweepReport, for_each

_log = logging.getLogger(__name__)

#: Rows that one request reads (Table Storage's limit).
_PAGE = 1000
_FIXES_AT_ONCE = 10
#: Seconds after which it is cut short; the host would end it after five minutes, with the process.
_LONGEST = 240


class FullSweep:
    """Walks all shards, one after the other; it keeps the index rows of one shard in memory."""

    def __init__(self, ports: Ports, damage: Damage) -> None:
        self._ports = ports
        self._damage = damage

    async def run(self) -> FullSweepReport:
        """Compare and fix everything once, from where the last sweep was cut short."""
        report = FullSweepReport()
        latest = None
        with report.surviving("heartbeat"):
            latest = await self._ports.heartbeats.latest(Chore.FULL_SWEEP)
        course = Course(self._ports.index.shards, latest)
        async with report.bounded(_LONGEST):
            for shard in course.shards:
                await self._sweep_shard(shard, course, report)
        await self._damage.report(report)
        with report.surviving("heartbeat"):
            await self._ports.heartbeats.beat(Chore.FULL_SWEEP, course.figures() | report.figures())
        return report

    async def _sweep_shard(self, shard: int, course: Course, report: FullSweepReport) -> None:
        with report.surviving(f"shard {shard}: its indexes"):
            place = course.begin(shard)
            await self._compare(shard, None if place is None else TaskId(place), course, report)
            return
        course.failed(shard)

    async def _compare(
        self, shard: int, beyond: TaskId | None, course: Course, report: FullSweepReport
    ) -> None:
        """Compare the tasks beyond one with their index rows, and fix page by page what differs."""
        seen = await self._indexed(shard, beyond, report)
        ahead = deque(sorted(seen, key=row_order))
        after: str | None = None
        while True:
            page = await self._ports.index_rows.tasks(shard, beyond=beyond, after=after, most=_PAGE)
            report.tasks += len(page.rows)
            report.found_damaged(page.unreadable)
            suspects = _differing(page.rows, seen)
            after = page.continuation
            last = page.rows[-1].task if page.rows else None
            while ahead and (after is None or (last and row_order(ahead[0]) <= row_order(last))):
                task = ahead.popleft()
                if task in seen:  # its row was passed by
                    suspects[task] = seen.pop(task)
            await for_each(suspects.items(), partial(self._fix, report), at_once=_FIXES_AT_ONCE)
            if after is None or last is not None:
                course.came_to(shard, None if after is None else last)
            if after is None:
                return

    async def _indexed(
        self, shard: int, beyond: TaskId | None, report: FullSweepReport
    ) -> dict[TaskId, list[IndexRow]]:
        """Read the index rows of the tasks beyond one."""
        seen: dict[TaskId, list[IndexRow]] = {}
        after: str | None = None
        while True:
            page = await self._ports.index_rows.indexed(shard, after=after, most=_PAGE)
            for row in page.rows:
                if beyond is None or row_order(row.task) > row_order(beyond):
                    seen.setdefault(row.task, []).append(row)
                    report.index_rows += 1
            after = page.continuation
            if after is None:
                return seen

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


def _differing(tasks: Iterable[TaskRow], seen: dict[TaskId, list[IndexRow]]) -> dict[TaskId, list[IndexRow]]:
    """Find the tasks whose index rows are not as they must be, with those; all are taken out of `seen`."""
    differing: dict[TaskId, list[IndexRow]] = {}
    for task in tasks:
        rows = seen.pop(task.task, [])
        if [row.key for row in rows] != [task.index_key] or rows[0].damaged:
            differing[task.task] = rows
    return differing
