"""The pending events of one task in this process, and its transactions with an unknown outcome.

This module does no I/O; `task_storage.py` reads and writes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from functions.core.record import TaskRecord
from functions.core.rules import Applied, Plan
from functions.core.task_events import Event
from functions.storage.group_commits import settle
from functions.storage.record_rows import StoredTask
from functions.storage.table_contract import NoSuchTaskError, TransientStorageError

#: Seconds after its deadline for which an event with a plan waits for the outcome of its transaction.
_LONGEST_DOUBT = 90
#: Records of unfinished tasks in the cache.
_MOST_RECORDS = 2000
#: Bytes of the texts of these records.
_MOST_CACHED_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Transition:
    """A change that was written. `before` is None for a new task; `after` has the messages of the change."""

    before: TaskRecord | None
    after: TaskRecord


@dataclass(eq=False, slots=True)
class PendingEvent:
    """An event that waits for its result. Numbers grow in the order of arrival.

    An event of a failed transaction is tried alone. One that is overdue is not applied again.
    """

    number: int
    event: Event | None
    plan: Plan | None
    result: asyncio.Future[tuple[Applied, Transition | None]]
    is_alone: bool = False
    overdue: Exception | None = None


@dataclass(frozen=True, slots=True)
class WriteAttempt:
    """A transaction that was sent. It can be written only while the task row is as in `base`."""

    write: str
    base: StoredTask
    events: Sequence[PendingEvent]
    answers: Sequence[Applied]

    def settle(self) -> None:
        """Return the results: the transaction is written. The first waiting caller has the transition."""
        transition: Transition | None = Transition(self.base.record, self.answers[-1].record)
        for pending, applied in zip(self.events, self.answers, strict=True):
            if not pending.result.done():
                settle(pending.result, (applied, transition))
                transition = None


class TaskInbox:
    """The state of one task's writer.

    Events are applied to `base`, the newest record when event number `newest_at` arrived; None: it must be
    read. The transactions `in_doubt` may be written. `missing` are keys of index rows that do not exist.
    """

    def __init__(self, task: str, base: StoredTask | None) -> None:
        self.task = task
        self.base = base
        self.worker: asyncio.Task[None] | None = None
        self.last = -1
        self.newest_at = -1
        self.missing = frozenset[str]()
        self._suspects = frozenset[str]()
        self._suspect_etag = ""
        self._events: list[PendingEvent] = []
        self.in_doubt: list[WriteAttempt] = []

    def add(self, event: Event | None, plan: Plan | None, seconds: float) -> PendingEvent:
        """Add an event, which is applied within a time in seconds."""
        self.last += 1
        loop = asyncio.get_running_loop()
        pending = PendingEvent(self.last, event, plan, loop.create_future())
        timer = loop.call_later(max(0.0, seconds), self._expire, pending)
        pending.result.add_done_callback(lambda _: timer.cancel())
        self._events.append(pending)
        return pending

    def waiting(self) -> list[PendingEvent]:
        """Return the events without a result."""
        self._events = [each for each in self._events if not each.result.done()]
        return self._events

    def batch(self) -> list[PendingEvent]:
        """Return the events of the next transaction: all, or the first one if it must be tried alone."""
        events = [each for each in self.waiting() if each.overdue is None]
        return list(takewhile(lambda each: not each.is_alone, events)) or events[:1]

    def committed(self, attempt: WriteAttempt, base: StoredTask, last: int) -> None:
        """Continue with a written record, which was the newest one after event number `last`."""
        self.in_doubt.clear()  # an attempt on an older version can no longer be written
        self.base, self.newest_at, self.missing = base, last, frozenset()
        attempt.settle()
        self._end_overdue()

    def conflicted(self, etag: str, suspects: frozenset[str]) -> None:
        """Read again. If the task has not changed, the index rows `suspects` do not exist."""
        self.base, self._suspects, self._suspect_etag = None, suspects, etag

    def isolate(self, events: Sequence[PendingEvent], error: Exception) -> None:
        """Try the events of a failure one by one. An event that was alone fails."""
        if len(events) == 1:
            settle(events[0].result, error)
        for pending in events:
            pending.is_alone = True

    def unchanged(self, events: Sequence[PendingEvent], answers: Sequence[Applied]) -> None:
        """Return the results of events that change nothing.

        Only a record that was read after the arrival of an event proves that.
        """
        for pending, applied in zip(events, answers, strict=True):
            if pending.number <= self.newest_at:
                settle(pending.result, (applied, None))
            else:
                self.base = None

    def found(self, stored: StoredTask | None, last: int) -> None:
        """Continue with a record that was read after event number `last`; None: there is no such task.

        An attempt whose id is in the task row was written. Any other one can be written only as long as the
        task row has its version.
        """
        if stored is None:
            self.fail(NoSuchTaskError(self.task), last)
            return
        for attempt in self.in_doubt:
            if attempt.write in stored.writes:
                attempt.settle()
        self.in_doubt = [each for each in self.in_doubt if each.base.etag == stored.etag]
        self._end_overdue()
        self.missing = self.missing | self._suspects if stored.etag == self._suspect_etag else frozenset()
        self.base, self.newest_at = stored, last

    def _end_overdue(self) -> None:
        for pending in self.waiting():
            if pending.overdue is not None:
                settle(pending.result, pending.overdue)

    def fail(self, error: Exception, last: int) -> None:
        """Raise an error at the callers of all events up to number `last`."""
        self.in_doubt.clear()
        for pending in self.waiting():
            if pending.number <= last:
                settle(pending.result, error)

    def _expire(self, pending: PendingEvent) -> None:
        """End an event at its deadline. The caller of a plan that is being sent waits for its starts."""
        error = TransientStorageError(f"task {self.task}: not recorded before the deadline")
        if pending.plan is not None and any(pending in attempt.events for attempt in self.in_doubt):
            pending.overdue = error
            asyncio.get_running_loop().call_later(_LONGEST_DOUBT, settle, pending.result, error)
        else:
            settle(pending.result, error)


class RecordCache:
    """The latest records of unfinished tasks in this process; the ETag of an outdated one guards its use."""

    def __init__(self) -> None:
        self._records = OrderedDict[str, tuple[StoredTask, int]]()
        self._bytes = 0

    def find(self, task: str) -> StoredTask | None:
        """Return the record of a task."""
        return self._records.get(task, (None, 0))[0]

    def keep(self, stored: StoredTask) -> None:
        """Replace the record of a task. The oldest records are dropped at the limits."""
        task = stored.record.order.task
        self.drop(task)
        if stored.record.finished_at is not None:
            return
        self._records[task] = stored, _bytes_of(stored.record)
        self._bytes += self._records[task][1]
        while len(self._records) > _MOST_RECORDS or self._bytes > _MOST_CACHED_BYTES:
            self.drop(next(iter(self._records)))

    def drop(self, task: str) -> None:
        """Remove the record of a task."""
        _, size = self._records.pop(task, (None, 0))
        self._bytes -= size


def _bytes_of(record: TaskRecord) -> int:
    """Return the size of the texts that can be large; the rest is bounded by the number of records."""
    operations = (each for step in record.steps.values() for each in (step.do, step.undo, *step.earlier_dos))
    texts = (text or "" for each in operations for text in (each.request, each.result))
    return len(record.order.payload) + sum(map(len, texts))
