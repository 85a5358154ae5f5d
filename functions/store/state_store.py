"""The state store: every change of a task's rows, in one transaction, by compare-and-swap."""

from __future__ import annotations

from datetime import datetime

from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.folding import Follow, Told
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.store_ports import Admission, Admitted, ChangeAnnouncer, Changed, KnownOrder, Stored
from functions.store.task_rows import admission
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from functions.store.transactions import Committed


class TableStateStore:
    """The state store on one table. Its methods raise `TransientError` when the service fails.

    A conflict (409, 412) is followed by a read-back: a write that the SDK repeated conflicts with itself.
    """

    def __init__(self, rows: TaskTable, writer: TaskWriter, announcer: ChangeAnnouncer) -> None:
        self._rows = rows
        self._writer = writer
        self._announcer = announcer

    async def admit(self, record: TaskRecord) -> Admitted:
        """Record a new task: its order, state, steps and index row, or none of them."""
        write_id = self._writer.new_write()
        result = await self._rows.commit(admission(record, write_id))
        if isinstance(result, Committed):
            there: Stored | None = Stored(record, result.etag, (write_id,))
        else:
            there = await self._rows.read(record.order.task)
        if there is None:
            raise TransientError(f"task {record.order.task} was there a moment ago and is gone")
        self._writer.remember(there)
        if write_id in there.writes:
            await self._announcer.announce(None, record)
            return Admitted(Admission.RECORDED, there)
        known = there.record.order.digest == record.order.digest
        return Admitted(Admission.KNOWN if known else Admission.CONFLICT, there)

    async def check(self) -> None:
        """Read one row, to see that Table Storage answers."""
        await self._rows.check()

    async def load(self, task: TaskId) -> Stored | None:
        """Read one task's rows."""
        return await self._rows.read(task)

    async def order(self, task: TaskId) -> KnownOrder | None:
        """Read which order is recorded under an id."""
        return await self._rows.order(task)

    async def known(self, task: TaskId) -> TaskRecord | None:
        """Give a task's record as this process wrote or read it last, maybe outdated, or else read it."""
        known = self._writer.remembered(task)
        if known is None:
            known = await self._rows.read(task)
            if known is not None:
                self._writer.remember(known)
        return None if known is None else known.record

    async def change(
        self,
        task: TaskId,
        event: Event,
        *,
        until: datetime | None = None,
        follow: Follow | None = None,
        read: Stored | None = None,
    ) -> Changed | Refused:
        """Have a task take `event` and what may `follow`, and announce each change that came of it.

        Raises `TransientError`, `UnwritableError` and `IllegalTransitionError`.
        """
        answer = await self._writer.tell(task, Told(event, follow), until=until, read=read)
        if isinstance(answer, Refused):
            return answer
        for change in answer.changes:
            await self._announcer.announce(change.before, change.after)
        return Changed(answer.record, answer.events)

    async def note(self, task: TaskId, event: Event) -> None:
        """Have a task take `event` along with its next change, or after a moment; it may be lost."""
        self._writer.note(task, event)
