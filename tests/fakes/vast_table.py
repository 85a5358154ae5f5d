"""A table of very many tasks: rows are made as they are read, and changes are kept."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from functions.core.record import RuleSettings, TaskRecord
from functions.core.rules import admit
from functions.storage.record_rows import admission
from functions.storage.row_keys import TaskIndex, shard_of, sortable
from functions.storage.table_contract import RowPage, RowQuery
from tests.fakes.simulated_table import SimulatedTable
from tests.fakes.storage_process import START, line, order

_LATEST = datetime.max.replace(tzinfo=START.tzinfo)
#: The time of the newest ended task.
_ENDED = START - timedelta(hours=1)
#: Keys of index rows are before this text, and keys of tasks behind it.
_FIRST_TASK = '"'
#: Tasks per task that is under way, and tasks per task that lacks its index row.
_UNDER_WAY, _DAMAGED = 50, 997

type _Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Shard:
    """The numbers of the tasks of a shard, and its wrong index rows, by task."""

    every: list[int]
    ended: list[int]
    under_way: list[int]
    wrong: list[str]


class VastTable(SimulatedTable):
    """A table of `tasks` tasks, numbered in the order of their ids.

    Half of the tasks under way are overdue, at intervals of 50 seconds. A damaged task lacks its index row,
    and has a wrong one; for each of them there is an index row of a task that does not exist.
    """

    def __init__(self, tasks: int, *, shards: int) -> None:
        super().__init__()
        self.tasks, self.shards = tasks, shards
        self._shards = {f"{number:03d}": _Shard([], [], [], []) for number in range(shards)}
        for number in range(tasks):
            shard = self._shards[shard_of(task_id(number), shards)]
            shard.every.append(number)
            (shard.ended if number % _UNDER_WAY else shard.under_way).append(number)
        for task in (*self.damaged, *(f"u{task[1:]}" for task in self.damaged)):
            self._shards[shard_of(task, shards)].wrong.append(task)
        self._rows = _Rows(self)
        self.rows = self._rows  # type: ignore[assignment]

    @property
    def damaged(self) -> list[str]:
        """Return the damaged tasks."""
        return [task_id(number) for number in range(0, self.tasks, _DAMAGED)]

    @property
    def ended(self) -> int:
        """Return the number of tasks that have ended."""
        return sum(len(shard.ended) for shard in self._shards.values())

    def due_by(self, time: datetime) -> set[str]:
        """Return the tasks that are due by a time."""
        return {task_id(each) for each in range(0, self.tasks, _UNDER_WAY) if self.time_of(each) <= time}

    @property
    def changed_tasks(self) -> set[str]:
        """Return the tasks whose record was changed."""
        return self._rows.changed_tasks

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page."""
        await self._start_read()
        first = max(query.first, query.continuation or "", query.beyond or "")
        found = self._rows.between(partition, first, query.end, only_tasks=query.having == "Index")
        rows = list(islice((row for row in found if row["RowKey"] != query.beyond), query.most + 1))
        following = rows.pop()["RowKey"] if len(rows) > query.most else None
        if query.columns:
            rows = [{name: row[name] for name in query.columns if name in row} for row in rows]
        return RowPage(rows, following)

    def made(self, partition: str, first: str, end: str, *, only_tasks: bool) -> Iterator[_Row]:
        """Make the rows of a partition from `first` to before `end`, without changes."""
        shard = self._shards.get(partition)
        if shard is None:
            return
        index = self._index_rows(shard, first) if first < _FIRST_TASK else iter(())
        tasks = self._task_rows(shard, first, only_tasks=only_tasks) if end > _FIRST_TASK else iter(())
        for row in chain(index, tasks):
            if row["RowKey"] >= end:
                return
            if row["RowKey"] >= first:
                yield {"PartitionKey": partition, **row, "odata.etag": "made"}

    def _index_rows(self, shard: _Shard, first: str) -> Iterator[_Row]:
        for numbers in (shard.ended, shard.under_way):
            start = bisect_left(numbers, first, key=self._index_key)
            for number in islice(numbers, start, None):
                if number % _DAMAGED:
                    yield _index_row(self._index_key(number), task_id(number))
        for task in shard.wrong:
            yield _index_row(f"{TaskIndex.DUE}|{sortable(_LATEST)}|{task}", task)

    def _task_rows(self, shard: _Shard, first: str, *, only_tasks: bool) -> Iterator[_Row]:
        start = bisect_left(shard.every, first, key=lambda number: f"{task_id(number)}}}")
        for number in islice(shard.every, start, None):
            if only_tasks:
                yield {"RowKey": f"{task_id(number)}|task", "Index": self._index_key(number)}
                continue
            changes = admission(self._record(number), "w1")[0]
            for change in sorted(changes, key=lambda change: change.key):
                if not change.key.startswith("!"):
                    row = {name: value for name, value in (change.row or {}).items() if "@" not in name}
                    yield {"RowKey": change.key, **row}

    def time_of(self, number: int) -> datetime:
        """Return the time at which a task is due, or ended."""
        if number % _UNDER_WAY:
            return _ENDED - timedelta(seconds=number)
        return START + timedelta(seconds=number - self.tasks // 2 + 25)

    def _index_key(self, number: int) -> str:
        time = self.time_of(number)
        if number % _UNDER_WAY:
            return f"{TaskIndex.DONE}|{(_LATEST - time) // timedelta.resolution:018d}|{task_id(number)}"
        return f"{TaskIndex.DUE}|{sortable(time)}|{task_id(number)}"

    def _record(self, number: int) -> TaskRecord:
        submitted = order(task_id(number), *line(1), at=START - timedelta(days=900))
        record = replace(admit(submitted, START, RuleSettings()), outbox=(), start_by=self.time_of(number))
        return replace(record, finished_at=self.time_of(number)) if number % _UNDER_WAY else record


def task_id(number: int) -> str:
    """Return the id of a task. Ids are in the order of their numbers."""
    return f"t{number:08d}"


def _index_row(key: str, task: str) -> _Row:
    return {
        "RowKey": key,
        "OrderID": task,
        "Workflow": "w",
        "WorkflowVersion": 1,
        "Submitter": "me",
        "SubmittedAt": "2026-01-01T00:00:00.000000Z",
        "ProcessState": "Processed" if key.startswith(TaskIndex.DONE) else "Pending",
    }


class _Rows(MutableMapping[tuple[str, str], _Row]):
    """The rows of the table, made as they are read, and the changed rows."""

    def __init__(self, table: VastTable) -> None:
        self._table = table
        self._changed: dict[str, dict[str, _Row | None]] = {}
        self._keys: dict[str, list[str]] = {}

    def between(self, partition: str, first: str, end: str, *, only_tasks: bool) -> Iterator[_Row]:
        """Yield the rows from `first` to before `end`."""
        changed, keys = self._changed.get(partition, {}), self._keys.get(partition, [])
        made = self._table.made(partition, first, end, only_tasks=only_tasks)
        others = keys[bisect_left(keys, first) : bisect_left(keys, end)]
        return heapq.merge(
            (row for row in made if row["RowKey"] not in changed),
            (row for key in others if (row := changed[key]) and (not only_tasks or "Index" in row)),
            key=lambda row: row["RowKey"],
        )

    def __getitem__(self, place: tuple[str, str]) -> _Row:
        partition, key = place
        for row in self.between(partition, key, f"{key}\0", only_tasks=False):
            return row
        raise KeyError(place)

    def __setitem__(self, place: tuple[str, str], row: _Row) -> None:
        self._change(*place, row)

    def __delitem__(self, place: tuple[str, str]) -> None:
        self._change(*place, None)

    def _change(self, partition: str, key: str, row: _Row | None) -> None:
        changed = self._changed.setdefault(partition, {})
        if key not in changed:
            insort(self._keys.setdefault(partition, []), key)
        changed[key] = row

    @property
    def changed_tasks(self) -> set[str]:
        """Return the tasks whose row was changed."""
        keys = (key for keys in self._keys.values() for key in keys)
        return {key.removesuffix("|task") for key in keys if key.endswith("|task")}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError
