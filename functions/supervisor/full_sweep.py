"""The full sweep: compares every task with its index rows and mends what differs.

Started by a daily timer. Index rows change with their task in one transaction, so there should be
nothing to mend; a task that no index knows would be looked at by nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock, StateStore, Stored
from functions.supervisor.concurrency import for_each
from functions.supervisor.figures import FullSweepFigures

_log = logging.getLogger(__name__)

#: Rows that one request reads (Table Storage's limit).
_PAGE = 1000
_MENDS_AT_ONCE = 10
#: Seconds after which it is cut short; the host would end it after five minutes, with the process.
_LONGEST = 240


@dataclass(frozen=True, slots=True)
class IndexRow:
    """An index row as it was seen: its key, and the version that guards its removal (an ETag)."""

    task: TaskId
    key: str
    version: str


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as it was seen, and the key of the one index row that it must have."""

    task: TaskId
    index_key: str


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some rows of one shard, and where the next page begins (None: there is none)."""

    index_rows: tuple[IndexRow, ...]
    task_rows: tuple[TaskRow, ...]
    continuation: str | None


@dataclass(frozen=True, slots=True)
class Mended:
    """How many index rows were created and deleted; none when the task changed meanwhile."""

    created: int = 0
    deleted: int = 0


class IndexRows(Protocol):
    """The rows of all tasks and of the indexes over them. Its methods raise `TransientError`."""

    @property
    def shards(self) -> int:
        """Tell how many shards there are; they are numbered from 0."""

    async def page(self, shard: int, *, after: str | None, most: int) -> RowPage:
        """Read a page of a shard: first all index rows, then all tasks."""

    async def mend(self, stored: Stored, seen: Sequence[IndexRow]) -> Mended:
        """Leave the task the one index row it must have, if it is still as it was read."""

    async def remove(self, orphan: IndexRow) -> Mended:
        """Delete an index row without a task, if it is still as it was seen."""


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
