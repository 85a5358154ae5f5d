"""The task indexes of a store in memory, as the state store maintains them."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import datetime
from functools import partial

from functions.pattern.error_class import class_of_task, failed_step
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, IndexPage
from functions.store.keys import index_key, search_row
from tests.fakes.store import MemoryStateStore


class MemoryTaskIndex:
    """Pages of index entries; a continuation is the key of the last entry, so that entries may be deleted.

    With a `failure` set, every page raises it.
    """

    def __init__(self, store: MemoryStateStore, *, shards: int = 2) -> None:
        self._store = store
        self._shards = shards
        self.requests = 0
        self.failure: Exception | None = None
        #: Entries of tasks that do not exist, or that differ from the index.
        self.wrong: dict[Index, list[IndexEntry]] = {index: [] for index in Index}
        #: Tasks without the index rows that they should have.
        self.hidden: set[TaskId] = set()
        #: Rows of shard 0 that can't be read, with the first page of each index.
        self.damaged: list[UnreadableError] = []

    @property
    def shards(self) -> int:
        """Return the number of shards."""
        return self._shards

    async def page(
        self,
        index: Index,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of one shard. Raises `ValueError` if `after` is no continuation."""
        self.requests += 1
        if self.failure is not None:
            raise self.failure
        if after is not None and "|" not in after:
            raise ValueError(after)
        entries = [
            each
            for each in self._entries(index, shard)
            if (since is None or since <= each.at) and (until is None or each.at < until)
        ]
        rest = [each for each in entries if after is None or _key(index, each) > after]
        page = tuple(rest[:most])
        damaged = tuple(self.damaged) if shard == 0 and after is None else ()
        return IndexPage(page, _key(index, page[-1]) if len(rest) > most else None, damaged)

    async def parked(
        self, workflow: str, version: int, shard: int, *, after: str | None, most: int
    ) -> IndexPage:
        """Read a page of the tasks of one shard that wait for a version of a workflow."""
        self.requests += 1
        waiting = [
            each.task
            for each in self._entries(Index.PARKED, shard)
            if (each.workflow, each.version) == (workflow, version)
            and not each.parked_by_operator
            and (after is None or each.task > after)
        ]
        entries = {each.task: each for each in self._entries(Index.PARKED, shard)}
        page = tuple(entries[task] for task in sorted(waiting)[:most])
        return IndexPage(page, page[-1].task if len(waiting) > most else None)

    async def named(self, prefix: str, shard: int, *, after: str | None = None, most: int) -> IndexPage:
        """Read a page of the tasks of one shard whose ids begin with `prefix`."""
        self.requests += 1
        named = (_order_entry(record) for record in self._store.records())
        mine = (each for each in named if each.task.startswith(prefix) and self._shard(each.task) == shard)
        rest = sorted(
            (each for each in mine if after is None or each.task > after), key=lambda each: each.task
        )
        return IndexPage(tuple(rest[:most]), rest[most - 1].task if len(rest) > most else None)

    async def found(
        self,
        key: str,
        shard: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        most: int,
    ) -> IndexPage:
        """Read a page of the tasks of one shard that have a search key."""
        self.requests += 1
        having = (_order_entry(each) for each in self._store.records() if key in each.order.search_keys)
        mine = (each for each in having if self._shard(each.task) == shard)
        between = [
            each
            for each in mine
            if (since is None or since <= each.at) and (until is None or each.at < until)
        ]
        rows = {search_row(key, each.at, each.task): each for each in between}
        rest = [row for row in sorted(rows) if after is None or row > after]
        page = tuple(rows[row] for row in rest[:most])
        return IndexPage(page, rest[most - 1] if len(rest) > most else None)

    def _entries(self, index: Index, shard: int) -> list[IndexEntry]:
        right = (_entry(record) for record in self._indexed() if _index_of(record) is index)
        there = (each for each in (*right, *self.wrong[index]) if self._shard(each.task) == shard)
        return sorted(there, key=partial(_key, index))

    def _indexed(self) -> list[TaskRecord]:
        return [each for each in self._store.records() if each.order.task not in self.hidden]

    def _shard(self, task: TaskId) -> int:
        return zlib.crc32(task.encode()) % self._shards


def _key(index: Index, entry: IndexEntry) -> str:
    last = "~" if entry.parked_by_operator else ""
    return last + index_key(index, entry.at, entry.task)


def _index_of(record: TaskRecord) -> Index:
    if record.task.is_parked:
        return Index.PARKED
    if record.task.finished_at is None:
        return Index.DUE
    return Index.ERROR if record.task.process_state is ProcessState.ERROR else Index.DONE


def _entry(record: TaskRecord) -> IndexEntry:
    task, entry = record.task, _order_entry(record)
    at = entry.at if task.is_parked else task.finished_at or task.due_at
    by_operator = task.is_parked_by_operator
    entry = replace(entry, at=at, state=task.process_state, parked_by_operator=by_operator)
    if task.process_state is not ProcessState.ERROR:
        return entry
    return replace(entry, step=failed_step(record), error=class_of_task(record))


def _order_entry(record: TaskRecord) -> IndexEntry:
    order = record.order
    return IndexEntry(
        task=order.task,
        at=order.submitted_at,
        workflow=order.workflow,
        state=None,
        submitted_at=order.submitted_at,
        version=order.workflow_version,
        submitter=order.submitter,
        correlation_id=order.correlation_id,
    )
