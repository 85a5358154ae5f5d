"""The full sweep, once a day: compares every task with its index rows and fixes what differs.

There should be nothing to fix; but nothing else would ever find a task that has no index row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.index_rows import IndexFix, IndexRow, row_order
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.supervisor.course import Course
from functions.supervisor.damage import Damage
from functions.supervisor.sweeping import FullSweepReport, for_each

_log = logging.getLogger(__name__)

#: Rows that one request reads (Table Storage's limit).
_PAGE = 1000
#: Tasks that are compared at once, about 20 MB: for them all index rows, which lie otherwise, are read.
_WINDOW = 50_000
_FIXES_AT_ONCE = 10
#: Looks at a task that changes meanwhile; each takes as long as a few requests.
_LOOKS = 50
#: Seconds after which it is cut short; the host would end it after five minutes, with the process.
_LONGEST = 240

#: A task, and the index row that is to be looked at; None for the one that it must have and was not seen.
type _Suspect = tuple[TaskId, IndexRow | None]


class FullSweep:
    """Walks all shards, one after the other, window by window: so many tasks in the order of their rows."""

    def __init__(self, ports: Ports, damage: Damage, *, window: int = _WINDOW) -> None:
        self._ports = ports
        self._damage = damage
        self._window = window

    async def run(self) -> FullSweepReport:
        """Compare and fix all shards once; a sweep that is cut short is continued by the next one."""
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
            while True:
                beyond = None if place is None else TaskId(place)
                place = course.came_to(shard, await self._compare(shard, beyond, report))
                if place is None:
                    return
        course.failed(shard)

    async def _compare(self, shard: int, beyond: TaskId | None, report: FullSweepReport) -> TaskId | None:
        """Compare a window of tasks with their index rows; give its last one (None: the shard's end)."""
        wanted, last = await self._read_tasks(shard, beyond, report)
        after: str | None = None
        while True:
            page = await self._ports.index_rows.indexed(shard, after=after, most=_PAGE)
            rows = [row for row in page.rows if _is_between(beyond, row.task, last)]
            report.index_rows += len(rows)
            await self._fix_all(report, [(row.task, row) for row in rows if not _was_wanted(row, wanted)])
            after = page.continuation
            if after is None:
                break
        await self._fix_all(report, [(task, None) for task in wanted])
        return last

    async def _read_tasks(
        self, shard: int, beyond: TaskId | None, report: FullSweepReport
    ) -> tuple[dict[TaskId, str], TaskId | None]:
        """Read a window of tasks: the keys of the index rows that they must have, and its last one."""
        wanted: dict[TaskId, str] = {}
        after, most = None, min(_PAGE, self._window)
        while True:
            page = await self._ports.index_rows.tasks(shard, beyond=beyond, after=after, most=most)
            report.tasks += len(page.rows)
            report.found_damaged(page.unreadable)
            wanted |= {row.task: row.index_key for row in page.rows}
            after = page.continuation
            if after is None:
                return wanted, None
            if len(wanted) >= self._window and page.rows:
                return wanted, page.rows[-1].task

    async def _fix_all(self, report: FullSweepReport, suspects: Iterable[_Suspect]) -> None:
        await for_each(suspects, partial(self._fix, report), at_once=_FIXES_AT_ONCE)

    async def _fix(self, report: FullSweepReport, suspect: _Suspect) -> None:
        task, row = suspect
        with report.surviving(f"task {task}: its index row"):
            fix = await self._fixed(task, row)
            report.created += fix.created
            report.deleted += fix.deleted
            if fix != IndexFix():
                _log.warning("task %s: index rows created %d, deleted %d", task, fix.created, fix.deleted)

    async def _fixed(self, task: TaskId, row: IndexRow | None) -> IndexFix:
        """Look again, until the task has not changed since: not every change brings its index row.

        Raises `TransientError` when it changes all the time.
        """
        seen: Sequence[IndexRow] = () if row is None else (row,)
        for _ in range(_LOOKS):
            stored = await self._ports.store.load(task)
            if stored is None:
                return IndexFix() if row is None else await self._ports.index_rows.remove(row)
            fix = await self._ports.index_rows.fix(stored, seen)
            if fix is not None:
                return fix
        raise TransientError(f"task {task} has changed during {_LOOKS} looks at it")


def _is_between(beyond: TaskId | None, task: TaskId, last: TaskId | None) -> bool:
    """Tell whether a task belongs to the window; one that is not there does, too, by where it would be."""
    place = row_order(task)
    return (beyond is None or row_order(beyond) < place) and (last is None or place <= row_order(last))


def _was_wanted(row: IndexRow, wanted: dict[TaskId, str]) -> bool:
    """Tell whether a row is what its task must have; then it is wanted no more."""
    if row.damaged or wanted.get(row.task) != row.key:
        return False
    del wanted[row.task]
    return True
