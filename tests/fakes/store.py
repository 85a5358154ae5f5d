"""A state store in memory, with the real transitions and a real compare-and-swap."""

from __future__ import annotations

from functions.pattern.events import Event, Refused
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.ports import Clock
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Admission, Admitted, Stored
from functions.pattern.transitions import apply


class MemoryStateStore:
    """Keeps tasks in memory. With a `failure` set, every call raises it, as if the service were down."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: dict[TaskId, Stored] = {}
        self.writes = 0
        self.failure: Exception | None = None

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
        return self._tasks.get(task)

    async def recall(self, task: TaskId, epoch: Epoch) -> Stored | None:  # noqa: ARG002 - the port's signature
        """Return the current record: there is no other process."""
        return await self.load(task)

    async def check(self) -> None:
        """Answer."""
        self._fail_if_set()

    async def change(self, stored: Stored, event: Event) -> Stored | Refused:
        """Apply `event` to the current record, which has the effect of a compare-and-swap."""
        self._fail_if_set()
        now = self._tasks[stored.record.order.task]
        outcome = apply(now.record, event, self._clock.now())
        if isinstance(outcome, Refused):
            return outcome
        return now if outcome is now.record else self.put(outcome)

    def put(self, record: TaskRecord) -> Stored:
        """Store `record`, whatever was stored before."""
        self.writes += 1
        self._tasks[record.order.task] = Stored(record, str(self.writes))
        return self._tasks[record.order.task]

    def record(self, task: TaskId) -> TaskRecord:
        """Return a record. Raises `KeyError` if there is no such task."""
        return self._tasks[task].record

    def records(self) -> list[TaskRecord]:
        """Return all records."""
        return [stored.record for stored in self._tasks.values()]

    def __len__(self) -> int:
        return len(self._tasks)

    def _fail_if_set(self) -> None:
        if self.failure is not None:
            raise self.failure
