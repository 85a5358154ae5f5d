"""Very many tasks whose rows nobody keeps: each row is made when it is read, from the task's number."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product

from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Index
from functions.store.entities import Entity, entity, task_entity
from functions.store.index_entities import index_entity
from functions.store.keys import index_key, order_row, step_row, task_row
from tests.fakes.clock import START
from tests.fakes.tasks import claimed, completed, pending, started, told
from tests.fakes.workflows import LINE

_DIGITS, _SUFFIXES = 7, [bytes(two) for two in product(b"abcdefghijklmnopqrstuvwxyz", repeat=2)]
#: A prime, by whose powers the numbers are shuffled: an index is in another order than the tasks.
_STRIDE = 7_919

_UNDER_WAY = pending(LINE)
_FINISHED = told(
    _UNDER_WAY, claimed(), *(event(step) for step in ("pick", "send") for event in (started, completed))
)
#: Rows of the tasks under way, and of the finished ones.
_ROWS = [task_entity(record.task, ("first",)) for record in (_UNDER_WAY, _FINISHED)]
_INDEX_ROWS = [index_entity(record) for record in (_UNDER_WAY, _FINISHED)]
_FAR_AWAY = START + timedelta(days=3_650)


@dataclass(frozen=True, slots=True)
class VastShard:
    """A shard's tasks, numbered from 0 in the order of their rows.

    One task in so many is under way, and half of those are overdue; all others are finished. One in so many
    lacks its index row, the next one has one too many, and so has one that is not there.
    """

    number: int
    shards: int
    tasks: int
    under_way_one_in: int = 50
    damaged_one_in: int = 997

    def task(self, number: int, prefix: str = "t") -> TaskId:
        """Give the id of a task, which lies in this shard."""
        begun = f"{prefix}{number:0{_DIGITS}d}"
        checksum = zlib.crc32(begun.encode())
        fits = (each for each in _SUFFIXES if zlib.crc32(each, checksum) % self.shards == self.number)
        return TaskId(begun + next(fits).decode())

    def number_at(self, key: str) -> int:
        """Give the number of the first task with a row at a key, or behind it."""
        if key < "t":
            return 0
        return self.tasks if key > "t~" else int(key[1 : 1 + _DIGITS])

    def record(self, number: int) -> TaskRecord:
        """Give a task as it is in the beginning."""
        id_, there = self.task(number), self._like(number)
        if there is _UNDER_WAY:
            task = replace(there.task, order_id=id_, due_at=self._time(number))
        else:
            task = replace(there.task, order_id=id_, finished_at=self._time(number))
        return replace(there, order=replace(there.order, task=id_), task=task)

    def _like(self, number: int) -> TaskRecord:
        return _FINISHED if number % self.under_way_one_in else _UNDER_WAY

    def _time(self, number: int) -> datetime:
        """Give the time by which a task is in its index; half of those under way are overdue, for an hour."""
        if number % self.under_way_one_in:
            return START - timedelta(microseconds=_place(number, self.tasks))
        place = _place(number // self.under_way_one_in, self.under_way)
        hours = -1 if place < self.under_way // 2 else 1
        return START + timedelta(hours=hours, seconds=place - self.under_way)

    @property
    def under_way(self) -> int:
        """Count the tasks under way."""
        return -(-self.tasks // self.under_way_one_in)

    @property
    def overdue(self) -> set[TaskId]:
        """Name the tasks that are overdue."""
        numbers = range(0, self.tasks, self.under_way_one_in)
        return {self.task(each) for each in numbers if self.record(each).task.due_at < START}

    @property
    def damaged(self) -> int:
        """Count the tasks of which each kind of damage is."""
        return len(self.lacking)

    @property
    def lacking(self) -> range:
        """Number the tasks that lack their index rows."""
        return range(0, self.tasks, self.damaged_one_in)

    def _lacks_its_row(self, number: int) -> bool:
        return number % self.damaged_one_in == 0

    def task_rows(self, number: int) -> Iterator[Entity]:
        """Make all rows of a task, in their order."""
        record = self.record(number)
        task = record.order.task
        yield entity(order_row(task), record.order)
        for place, step in enumerate(record.steps):
            yield entity(step_row(task, place), step)
        yield self.task_row(number)

    def task_row(self, number: int) -> Entity:
        """Make the row of a task's state."""
        id_, is_finished = self.task(number), number % self.under_way_one_in > 0
        row = _ROWS[is_finished] | {"RowKey": task_row(id_), "OrderID": id_}
        return row | {"FinishedAt" if is_finished else "DueAt": self._time(number)}

    def _index_row(self, number: int) -> Entity:
        id_, is_finished = self.task(number), number % self.under_way_one_in > 0
        key = index_key(Index.DONE if is_finished else Index.DUE, self._time(number), id_)
        return _INDEX_ROWS[is_finished] | {"RowKey": key, "OrderID": id_}

    def index_rows(self, first: str, end: str) -> Iterator[Entity]:
        """Make the index rows from one key, included, to another, in their order."""
        for row in self._all_index_rows(first):
            if row["RowKey"] >= end:
                return
            if row["RowKey"] >= first:
                yield row

    def _all_index_rows(self, first: str) -> Iterator[Entity]:
        """Make the index rows, but for what is far before the first one."""
        for place in range(self._first_finished(first), self.tasks):
            number = _number_at(place, self.tasks)
            if number % self.under_way_one_in and not self._lacks_its_row(number):
                yield self._index_row(number)
        for place in range(self.under_way):
            number = _number_at(place, self.under_way) * self.under_way_one_in
            if not self._lacks_its_row(number):
                yield self._index_row(number)
        for number in self.lacking:
            yield self._wrong(self.task(number + 1))
        for number in self.lacking:
            yield self._wrong(self.task(number, "u"))

    @staticmethod
    def _wrong(task: TaskId) -> Entity:
        return _INDEX_ROWS[False] | {"RowKey": index_key(Index.DUE, _FAR_AWAY, task), "OrderID": task}

    def _first_finished(self, first: str) -> int:
        if not first.startswith("!done|2"):
            return self.tasks if first > "!done|~" else 0
        latest = index_key(Index.DONE, START, _UNDER_WAY.task.order_id)
        return max(0, int(first.split("|")[1]) - int(latest.split("|")[1]))


def _place(number: int, count: int) -> int:
    return number * _STRIDE % count


def _number_at(place: int, count: int) -> int:
    return place * _inverse(count) % count


@lru_cache
def _inverse(count: int) -> int:
    return pow(_STRIDE, -1, count)
