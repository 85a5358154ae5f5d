"""Rows of tasks in memory with a table's conditions and faults, and writers that share them."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from itertools import count

from functions.pattern.errors import TransientError, UnwritableError
from functions.pattern.events import Event
from functions.pattern.folding import Answer, Follow, Told
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.store_ports import Stored
from functions.store.entities import Entity, record_of, writes_of
from functions.store.group_format import Operation
from functions.store.keys import rows_of, task_row
from functions.store.task_rows import admission
from functions.store.task_writer import TaskWriter
from functions.store.transactions import Committed, Conflicted, Transaction
from tests.fakes.chance import Least
from tests.fakes.clock import FakeClock
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow


class Fault(Enum):
    """What happens to a transaction."""

    #: The service refuses it for now.
    BUSY = "busy"
    #: It is written, and the answer is lost.
    LOST = "lost"
    #: It is written, the answer is lost, and the SDK sends it again.
    REPEATED = "repeated"
    #: It is given up, and is written later (`arrive`), if its condition still holds.
    LATE = "late"


class MemoryRows:
    """Rows that several writers share, as processes do."""

    def __init__(self, *records: TaskRecord) -> None:
        self.entities: dict[str, Entity] = {}
        self.sent: list[Transaction] = []
        self.reads = 0
        self.faults = deque[Fault | None]()
        self.refuses: Callable[[Transaction], bool] = lambda _: False
        self.error: Exception | None = None
        #: Gives the row that a conflict names, whichever was not as expected.
        self.blames: Callable[[Transaction], str] | None = None
        #: Cleared, they keep on their way: everything, answers of reads, and losses of answers.
        self.gate, self.read_gate, self.loss_gate = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for gate in (self.gate, self.read_gate, self.loss_gate):
            gate.set()
        self.waiting = 0
        self._versions: dict[str, str] = {}
        self._numbers = count(1)
        self._late: list[Transaction] = []
        for record in records:
            self._apply(admission(record, "admitted"))

    async def commit(self, transaction: Transaction) -> Committed | Conflicted:
        """Commit as the table does."""
        self.sent.append(transaction)
        fault = self.faults.popleft() if self.faults else None
        await self._pass(self.gate)
        if self.error is not None:
            raise self.error
        if self.refuses(transaction):
            raise UnwritableError(transaction.task, "InvalidInput")
        if fault is Fault.LATE:
            self._late.append(transaction)
        if fault in {Fault.BUSY, Fault.LATE}:
            raise TransientError("503")
        result = self._apply(transaction)
        if fault is Fault.LOST:
            await self._pass(self.loss_gate)
            raise TransientError("no answer")
        return self._apply(transaction) if fault is Fault.REPEATED else result

    async def read(self, task: TaskId) -> Stored | None:
        """Read as the table does."""
        self.reads += 1
        found = self.stored(task)
        await self._pass(self.gate)
        await self._pass(self.read_gate)
        if self.error is not None:
            raise self.error
        return found

    def stored(self, task: TaskId) -> Stored | None:
        """Give what is there now."""
        first, end = rows_of(task)
        rows = [self.entities[key] for key in sorted(self.entities) if first <= key < end]
        own = self.entities.get(task_row(task))
        if own is None:
            return None
        return Stored(record_of(rows), self._versions[task_row(task)], writes_of(own))

    def record(self, task: TaskId) -> TaskRecord:
        """Give the record of a task that must exist."""
        stored = self.stored(task)
        assert stored is not None
        return stored.record

    def remove(self, prefix: str) -> None:
        """Delete rows by the beginning of their keys."""
        for key in [key for key in self.entities if key.startswith(prefix)]:
            del self.entities[key]

    def arrive(self) -> None:
        """Let the late transactions arrive."""
        for transaction in self._late:
            self._apply(transaction)
        self._late.clear()

    async def until_waiting(self) -> None:
        """Wait until a call has reached a gate."""
        async with asyncio.timeout(10):
            while not self.waiting:
                await asyncio.sleep(0)

    async def _pass(self, gate: asyncio.Event) -> None:
        self.waiting += 1
        await asyncio.sleep(0)
        await gate.wait()
        self.waiting -= 1

    def _apply(self, transaction: Transaction) -> Committed | Conflicted:
        assert len({each.entity["RowKey"] for each in transaction.operations}) == len(transaction.operations)
        assert len(transaction.operations) <= 100
        for each in transaction.operations:
            if not self._holds(each):
                named = self.blames(transaction) if self.blames else str(each.entity["RowKey"])
                return Conflicted(frozenset({named}))
        for operation in transaction.operations:
            key = operation.entity["RowKey"]
            if operation.kind == "delete":
                del self.entities[key]
            else:
                self.entities[key] = dict(operation.entity)
                self._versions[key] = str(next(self._numbers))
        return Committed(self._versions[transaction.operations[0].entity["RowKey"]])

    def _holds(self, operation: Operation) -> bool:
        key = operation.entity["RowKey"]
        if operation.kind == "upsert":
            return True
        is_there = key in self.entities
        is_as_read = operation.etag == "*" or (is_there and self._versions[key] == operation.etag)
        return is_as_read and is_there is not (operation.kind == "create")


def wide(steps: int) -> TaskRecord:
    """Make a task whose steps are all running side by side."""
    names = [f"s{number:02d}" for number in range(steps)]
    record = pending(workflow(*map(step, names)))
    return told(record, claimed(), *(started(name) for name in names))


class Writer:
    """One process's writer, which never waits between tries."""

    def __init__(self, rows: MemoryRows) -> None:
        self.clock = FakeClock()
        self.writer = TaskWriter(rows, clock=self.clock, new_id=lambda: uuid.uuid4().hex, random=Least())

    async def tell(
        self,
        event: Event,
        *,
        task: TaskId = TASK,
        follow: Follow | None = None,
        until: datetime | None = None,
    ) -> Answer | Refused:
        """Tell a task an event."""
        return await self.writer.tell(task, Told(event, follow), until=until)

    async def knows(self, *events: Event) -> None:
        """Tell events one after another; none may be refused."""
        for event in events:
            assert isinstance(await self.tell(event), Answer)

    async def tell_all(self, events: Sequence[Event]) -> list[Answer | Refused]:
        """Tell events side by side."""
        return await asyncio.gather(*map(self.tell, events))

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is left of what was told."""
        return not self.writer._lines and not self.writer._workers
