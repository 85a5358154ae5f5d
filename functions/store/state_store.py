"""The state store: every change of a task's rows, in one transaction, by compare-and-swap."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from azure.data.tables.aio import TableClient

from functions.pattern.announcements import announcements
from functions.pattern.coalescer import Coalescer
from functions.pattern.errors import IllegalTransitionError, PatternError, UnwritableError
from functions.pattern.events import Event, Refused
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.ports import Clock
from functions.pattern.records import TaskRecord
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Admission, Admitted, ChangeAnnouncer, Stored
from functions.pattern.transitions import apply
from functions.store.connect import table_faults
from functions.store.entities import WRITE_ID, entity, index_entity, outbox_entity, record_of, task_entity
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import Operation
from functions.store.keys import (
    SHARDS_PARTITION,
    SHARDS_ROW,
    epoch_row,
    index_row,
    lost_row,
    order_row,
    rows_of,
    shard_of,
    step_row,
    task_row,
)
from functions.store.transactions import Committed, Conflicted, Result, ShardWriter, Transaction

#: How often a change is tried on a fresh read; the writers of one task are few.
_MOST_ATTEMPTS = 10

#: A record can hold a payload of 48 KiB, so this is at most some 50 MB; it is usually some 2 MB.
_MOST_TASKS = 1_000


class ContentionError(PatternError):
    """A task changed so often meanwhile that this change was never written."""


class _RecentTasks:
    """Spares a read where the writer of the last row is also its next reader."""

    def __init__(self) -> None:
        self._stored: OrderedDict[TaskId, Stored] = OrderedDict()

    def keep(self, stored: Stored) -> Stored:
        """Remember a record, but not of a finished task: it is not needed any more."""
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


class TableStateStore:
    """The state store on one table. Its methods raise `TransientError` when the service fails.

    A conflict (409, 412) is followed by a read-back: a write that the SDK repeated conflicts with itself.
    Each write leaves its own id on the task's row. Announcements are written with a change, then sent.
    """

    def __init__(
        self,
        table: TableClient,
        groups: EntityGroups,
        *,
        shards: int,
        clock: Clock,
        new_id: Callable[[], str],
        figures: StoreFigures,
        announcer: ChangeAnnouncer,
    ) -> None:
        self._table = table
        self._groups = groups
        self._shards = shards
        self._clock = clock
        self._new_id = new_id
        self._figures = figures
        self._announcer = announcer
        self._writers: dict[str, Coalescer[Transaction, Result]] = {}
        self._recent = _RecentTasks()

    async def admit(self, record: TaskRecord) -> Admitted:
        """Record a new task: its order, state, steps and index row, or none of them."""
        task = record.order.task
        write_id = self._new_id()
        rows = [
            task_entity(record.task, write_id),
            entity(order_row(task), record.order),
            *(entity(step_row(task, number), step) for number, step in enumerate(record.steps)),
            index_entity(record),
            *(outbox_entity(each) for each in announcements(None, record)),
        ]
        created = Transaction(task, tuple(Operation("create", row) for row in rows))
        result = await self._commit(created)
        if isinstance(result, Committed):
            there, written_by = self._recent.keep(Stored(record, result.etag)), write_id
        else:
            there, written_by = await self._read_back(task)
        if written_by == write_id:
            await self._announcer.announce(None, record)
            return Admitted(Admission.RECORDED, there)
        known = there.record.order.digest == record.order.digest
        return Admitted(Admission.KNOWN if known else Admission.CONFLICT, there)

    async def check(self) -> None:
        """Read one row, to see that Table Storage answers. Raises `TransientError` when it does not."""
        with table_faults():
            await self._table.get_entity(SHARDS_PARTITION, SHARDS_ROW)

    async def load(self, task: TaskId) -> Stored | None:
        """Read one task's rows in one request."""
        read = await self._read(task)
        return None if read is None else read[0]

    async def recall(self, task: TaskId, epoch: Epoch) -> Stored | None:
        """Give what this process wrote last of the task in `epoch` or later, or else read it.

        It may be outdated. That is safe: `change` writes conditionally, and refuses on a fresh read only.
        """
        return self._recent.find(task, epoch) or await self.load(task)

    async def change(self, stored: Stored, event: Event) -> Stored | Refused:
        """Apply `event`, again where overtaken. Raises `IllegalTransitionError` and `ContentionError`."""
        task = stored.record.order.task
        index_is_wrong = False
        for _ in range(_MOST_ATTEMPTS):
            after = self._after(stored, event)
            if isinstance(after, TaskRecord):
                write_id = self._new_id()
                result = await self._commit(_update(stored, after, write_id, fix_index=index_is_wrong))
                before, version = stored.record, stored.version
                if isinstance(result, Committed):
                    stored, written_by = self._recent.keep(Stored(after, result.etag)), write_id
                else:
                    stored, written_by = await self._read_back(task)
                if written_by == write_id:
                    await self._announcer.announce(before, after)
                    return stored
                index_is_wrong = stored.version == version  # the task is as it was: nothing else conflicts
            elif self._recent.holds(stored):
                stored, _ = await self._read_back(task)
            else:
                return stored if after is None else after
        raise ContentionError(f"task {task} changed {_MOST_ATTEMPTS} times meanwhile")

    def _after(self, stored: Stored, event: Event) -> TaskRecord | Refused | None:
        """Give what is to be written, why nothing is, or None when the record holds it already."""
        try:
            after = apply(stored.record, event, self._clock.now())
        except IllegalTransitionError:
            if self._recent.holds(stored):
                return None
            raise
        return None if after is stored.record else after

    async def _commit(self, transaction: Transaction) -> Committed | Conflicted:
        shard = shard_of(transaction.task, self._shards)
        if shard not in self._writers:
            self._writers[shard] = Coalescer(ShardWriter(self._groups, shard, self._figures).commit)
        with table_faults():
            result = await self._writers[shard].submit(transaction)
        if isinstance(result, UnwritableError):
            raise result
        return result

    async def _read_back(self, task: TaskId) -> tuple[Stored, str]:
        self._recent.forget(task)
        read = await self._read(task)
        if read is None:
            raise ContentionError(f"task {task} was there a moment ago and is gone")
        return read

    async def _read(self, task: TaskId) -> tuple[Stored, str] | None:
        first, end = rows_of(task)
        self._figures.reads += 1
        rows = self._table.query_entities(
            "PartitionKey eq @shard and RowKey ge @first and RowKey lt @end",
            parameters={"shard": shard_of(task, self._shards), "first": first, "end": end},
        )
        with table_faults():
            entities = [row async for row in rows]
        for row in entities:
            if row["RowKey"] == task_row(task):
                return Stored(record_of(entities), str(row.metadata["etag"])), row[WRITE_ID]
        return None


def _update(stored: Stored, after: TaskRecord, write_id: str, *, fix_index: bool) -> Transaction:
    """Write the task's row, what changed of the others, and the announcements that follow.

    To fix the index, its row is written whatever is there; the full sweep finds an old one that is left.
    """
    task = after.order.task
    before = stored.record
    operations = [Operation("update", task_entity(after.task, write_id), stored.version)]
    for number, (old, new) in enumerate(zip(before.steps, after.steps, strict=True)):
        if old is not new:
            operations.append(Operation("update", entity(step_row(task, number), new)))
    if fix_index:
        operations.append(Operation("upsert", index_entity(after)))
    elif index_row(before.task) != index_row(after.task):
        operations.append(Operation("delete", {"RowKey": index_row(before.task)}))
        operations.append(Operation("create", index_entity(after)))
    added = [entity(epoch_row(task, each.epoch), each) for each in after.history[len(before.history) :]]
    added += [entity(lost_row(task, each), each) for each in after.lost[len(before.lost) :]]
    added += [outbox_entity(each) for each in announcements(before, after)]
    return Transaction(task, (*operations, *(Operation("create", row) for row in added)))
