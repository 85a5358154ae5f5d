"""What this process wrote last of the tasks that are under way."""

from __future__ import annotations

from collections import OrderedDict

from functions.pattern.identity import Epoch, TaskId
from functions.pattern.store_ports import Stored

#: A record can hold a payload of 48 KiB, so this is at most some 50 MB; it is usually some 2 MB.
_MOST_TASKS = 1_000


class RecentTasks:
    """Spares a read where the writer of the last row is also its next reader."""

    def __init__(self) -> None:
        self._stored: OrderedDict[TaskId, Stored] = OrderedDict()

    def keep(self, stored: Stored) -> Stored:
        """Remember a record, but not of a finished task, which nobody needs any more."""
        task = stored.record.task
        self.forget(task.order_id)
        if task.finished_at is None:
            self._stored[task.order_id] = stored
            if len(self._stored) > _MOST_TASKS:
                self._stored.popitem(last=False)
        return stored

    def find(self, task: TaskId, epoch: Epoch) -> Stored | None:
        """Give the record of a task, or None when there is none from `epoch` or later."""
        stored = self._stored.get(task)
        return None if stored is None or stored.record.task.epoch < epoch else stored

    def holds(self, stored: Stored) -> bool:
        """Tell whether this very record is remembered, so that it may not be what the table has."""
        return self._stored.get(stored.record.order.task) is stored

    def forget(self, task: TaskId) -> None:
        """Drop the record of a task."""
        self._stored.pop(task, None)
