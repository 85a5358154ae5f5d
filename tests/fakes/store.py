"""A state store in memory, with the real transitions and folds and a real compare-and-swap."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.events import Event
from functions.pattern.folding import Complete, Follow, Rules, Told, fold
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.store_ports import Admission, Admitted, Changed, KnownOrder, Stored


class MemoryStateStore:
    """Keeps tasks in memory. With a `failure` set, every call raises it, as if the service were down."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: dict[TaskId, Stored] = {}
        self.writes = 0
        self.failure: Exception | None = None
        #: What completes a processed task; nothing, unless it is set.
        self.complete: Complete = lambda record: record
        #: Tasks whose rows can't be read.
        self.damaged: set[TaskId] = set()
        #: Exceptions that changes of tasks raise, and tasks whose reads and changes never end.
        self.faults: dict[TaskId, Exception] = {}
        self.hanging: set[TaskId] = set()
        #: Until when each change was to be tried.
        self.limits: list[datetime | None] = []

    async def admit(self, record: TaskRecord) -> Admitted:
        """Record a new task."""
        self._fail_if_set()
        known = self._tasks.get(record.order.task)
        if known is None:
            return Admitted(Admission.RECORDED, self.put(record))
        same = known.record.order.digest == record.order.digest
        return Admitted(Admission.KNOWN if same else Admission.CONFLICT, known)

    async def load(self, task: TaskId) -> Stored | None:
        """Read one task."""
        self._fail_if_set()
        self._fail_if_damaged(task)
        await self._hang_if_set(task)
        return self._tasks.get(task)

    async def known(self, task: TaskId) -> TaskRecord | None:
        """Return the current record: there is no other process."""
        stored = await self.load(task)
        return None if stored is None else stored.record

    async def order(self, task: TaskId) -> KnownOrder | None:
        """Give which order is recorded under an id."""
        stored = await self.load(task)
        if stored is None:
            return None
        order = stored.record.order
        return KnownOrder(
            digest=order.digest,
            submitter=order.submitter,
            birth=order.birth,
        )

    async def check(self) -> None:
        """Answer."""
        self._fail_if_set()

    async def change(
        self,
        task: TaskId,
        event: Event,
        *,
        until: datetime | None = None,
        follow: Follow | None = None,
        read: Stored | None = None,  # noqa: ARG002 - the port's signature
    ) -> Changed | Refused:
        """Fold `event` and what follows into the current record: the effect of a compare-and-swap."""
        self.limits.append(until)
        self._fail_if_set()
        self._fail_if_damaged(task)
        await self._hang_if_set(task)
        if task in self.faults:
            raise self.faults[task]
        if task not in self._tasks:
            return Refused(RefusalReason.NO_SUCH_TASK)
        folded = fold(self.record(task), [Told(event, follow)], self._clock.now(), Rules(self.complete))
        [answer] = folded.answers
        if isinstance(answer.fault, Refused):
            return answer.fault
        if answer.fault is not None:
            raise answer.fault
        if answer.changes:
            self.put(folded.record)
        return Changed(answer.record, answer.events)

    async def note(self, task: TaskId, event: Event) -> None:
        """Take the event at once; it may be lost."""
        with suppress(TransientError):
            await self.change(task, event)

    def put(self, record: TaskRecord) -> Stored:
        """Store `record`, whatever was stored before."""
        self.writes += 1
        self._tasks[record.order.task] = Stored(record, str(self.writes))
        return self._tasks[record.order.task]

    def record(self, task: TaskId) -> TaskRecord:
        """Return a record. Raises `KeyError` if there is no such task."""
        return self._tasks[task].record

    def remove(self, task: TaskId) -> None:
        """Purge a task."""
        del self._tasks[task]

    def records(self) -> list[TaskRecord]:
        """Return all records."""
        return [stored.record for stored in self._tasks.values()]

    async def _hang_if_set(self, task: TaskId) -> None:
        if task in self.hanging:
            await asyncio.Event().wait()

    def _fail_if_damaged(self, task: TaskId) -> None:
        if task in self.damaged:
            raise UnreadableError(f"{task}|task", "ValueError: 'Parked' is not a valid ProcessState")

    def __len__(self) -> int:
        return len(self._tasks)

    def _fail_if_set(self) -> None:
        if self.failure is not None:
            raise self.failure
