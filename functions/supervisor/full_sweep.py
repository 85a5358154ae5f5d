"""The full sweep: compares every task with its index rows and mends what differs.

Started by a daily timer. Index rows change with their task in one transaction, so there should be
nothing to mend; a task that no index knows would be looked at by nobody.
"""

from __future__ import annotations

import logging
from functools import partial

from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.store_ports import IndexRow, IndexRows, Mended, StateStore
from functions.supervisor.concurrency import for_each
from functions.supervisor.figures import FullSweepFigures

_log = logging.getLogger(__name__)

#: Rows that one request reads (Table Storage's limit).
_PAGE = 1000
_MENDS_AT_ONCE = 10
#: Seconds after which it is cut short; the host would end it after five minutes, with the process.
_LONGEST = 240


class FullSweep:
    """Walks all shards, one after the other; it keeps the index rows of one shard in memory."""

    def __init__(self, *, rows: IndexRows, store: StateStore, clock: Clock) -> None:
        self._rows = rows
        self._store = store
        self._clock = clock

    async def run(self) -> FullSweepFigures:
        """Compare and mend everything once; what changes meanwhile is left to the next time.

        It begins one shard further each day, so that those behind have their turn if it is cut short.
        """
        figures = FullSweepFigures()
        shards = self._rows.shards
        first = self._clock.now().toordinal()
        async with figures.bounded(_LONGEST):
            for number in range(shards):
                await self._sweep_shard((first + number) % shards, figures)
        return figures

    async def _sweep_shard(self, shard: int, figures: FullSweepFigures) -> None:
        with figures.surviving(f"shard {shard}: its indexes"):
            suspects = await self._compare(shard, figures)
            await for_each(suspects.items(), partial(self._mend, figures), at_once=_MENDS_AT_ONCE)

    async def _compare(self, shard: int, figures: FullSweepFigures) -> dict[TaskId, list[IndexRow]]:
        """Find the tasks whose index rows are not as they must be, with the rows that were seen."""
        seen: dict[TaskId, list[IndexRow]] = {}
        unindexed: dict[TaskId, list[IndexRow]] = {}
        after: str | None = None
        while True:
            page = await self._rows.page(shard, after=after, most=_PAGE)
            figures.index_rows += len(page.index_rows)
            figures.tasks += len(page.task_rows)
            for row in page.index_rows:
                seen.setdefault(row.task, []).append(row)
            for task in page.task_rows:
                if [row.key for row in seen.get(task.task, [])] == [task.index_key]:
                    del seen[task.task]
                else:
                    unindexed.setdefault(task.task, [])
            after = page.continuation
            if after is None:
                return unindexed | seen

    async def _mend(self, figures: FullSweepFigures, suspect: tuple[TaskId, list[IndexRow]]) -> None:
        """Look again: the task may have changed while its shard was read."""
        task, seen = suspect
        with figures.surviving(f"task {task}: its index row"):
            stored = await self._store.load(task)
            if stored is not None:
                self._count(figures, task, await self._rows.mend(stored, seen))
                return
            for orphan in seen:
                self._count(figures, task, await self._rows.remove(orphan))

    def _count(self, figures: FullSweepFigures, task: TaskId, mended: Mended) -> None:
        figures.created += mended.created
        figures.deleted += mended.deleted
        if mended != Mended():
            _log.warning("task %s: index rows created %d, deleted %d", task, mended.created, mended.deleted)
