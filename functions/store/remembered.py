"""The newest records that this process wrote or read, so that its next write needs no read."""

from __future__ import annotations

from collections import OrderedDict

from functions.pattern.identity import TaskId
from functions.pattern.store_ports import Stored

#: Records of tasks under way: so many, and not more bytes of payloads and results than that.
_MOST_UNDER_WAY = 1_000
_MOST_BYTES = 64 * 1024 * 1024
#: Of a finished task only its last announcements are still to be recorded, in a moment.
_MOST_FINISHED = 100


class RememberedTasks:
    """A bounded memory. What it gives may be outdated: a write upon it has to be conditional."""

    def __init__(self) -> None:
        self._under_way = OrderedDict[TaskId, Stored]()
        self._finished = OrderedDict[TaskId, Stored]()
        self._bytes = 0

    def find(self, task: TaskId) -> Stored | None:
        """Give what is remembered of a task."""
        return self._under_way.get(task) or self._finished.get(task)

    def keep(self, stored: Stored) -> None:
        """Remember a record instead of what was remembered of its task."""
        task = stored.record.task
        self.forget(task.order_id)
        is_finished = task.finished_at is not None
        kept, most = (self._finished, _MOST_FINISHED) if is_finished else (self._under_way, _MOST_UNDER_WAY)
        kept[task.order_id] = stored
        self._bytes += _bytes_of(stored)
        while len(kept) > most or (self._bytes > _MOST_BYTES and len(kept) > 1):
            self.forget(next(iter(kept)))

    def forget(self, task: TaskId) -> None:
        """Drop what is remembered of a task."""
        known = self._under_way.pop(task, None) or self._finished.pop(task, None)
        if known is not None:
            self._bytes -= _bytes_of(known)


def _bytes_of(stored: Stored) -> int:
    """Count what can be large; the rest is bounded with the number of records."""
    record = stored.record
    kept = (each for step in record.steps for each in (step.result, step.received) if each is not None)
    return len(record.order.payload) + sum(map(len, kept))


def newest(remembered: Stored | None, read: Stored | None) -> Stored | None:
    """Choose between what is remembered and what was just read; a wrong choice costs a conflict, no more."""
    if remembered is None or read is None:
        return read or remembered
    return read if read.record.task.updated_at > remembered.record.task.updated_at else remembered
