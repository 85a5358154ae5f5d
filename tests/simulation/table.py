"""The table of all hosts: each commit is decoded back into a record, and checked with its events."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.derive import ProcessState, derive
from functions.core.gate_rules import Gate
from functions.core.record import CHILD_MESSAGES, Direction, Message, TaskRecord
from functions.core.rules import Applied
from functions.core.task_events import Due, Event
from functions.storage.gates import Gates
from functions.storage.record_rows import StoredTask, index_rows, message_of, stored_task
from functions.storage.row_keys import record_of, sortable, task_in, time_in
from functions.storage.table_contract import CorruptRowError, RefusedChanges, Row, RowChange
from functions.storage.task_inbox import PendingEvent
from functions.storage.task_storage import TaskStorage
from functions.supervisor.sweep_progress import SUPERVISOR
from tests.fakes.indexed_table import IndexedTable
from tests.simulation.drawn import STEADY

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Time after its end at which a finished task is deleted.
RETENTION = timedelta(days=3)
_GATE = TypeAdapter(Gate)
_NO_TASKS = (Gates.partition, SUPERVISOR)


@dataclass(frozen=True, slots=True)
class Fold:
    """The events of one transaction with their results, and the record to which they were applied."""

    base: TaskRecord
    events: Sequence[Event | None]
    answers: Sequence[Applied]
    is_deployed: bool


class SearchStorage(TaskStorage):
    """The product's storage. It also notes the events of each write for the checks."""

    folds: dict[str, Fold]
    registry: WorkflowRegistry

    def _fold(
        self, base: StoredTask, events: Sequence[PendingEvent], write: str, missing: Collection[str]
    ) -> tuple[list[Applied], list[RowChange], StoredTask]:
        folded = super()._fold(base, events, write, missing)
        is_deployed = self.registry.find(base.record.order.workflow) is not None
        self.folds[write] = Fold(base.record, [each.event for each in events], folded[0], is_deployed)
        return folded


class SearchTable(IndexedTable):
    """All rows, with the index rows and the unsent messages that exist."""

    def __init__(self, world: World, *, page: int) -> None:
        super().__init__()
        self.page = page
        self.world = world
        self.folds: dict[str, Fold] = {}
        self.index = defaultdict[str, set[str]](set)
        self.unsent: set[tuple[str, str]] = set()
        self.requests = Counter[str]()
        self.damaged: set[str] = set()
        self.without_index: set[str] = set()
        self.deleted: set[str] = set()

    def write(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none, and check them. A failed check raises nothing at the application."""
        before = {change.key: self.rows.get((partition, change.key)) for change in changes}
        answer = super().write(partition, changes)
        self.transactions.clear()
        if not isinstance(answer, RefusedChanges):
            self.requests[f"write {STEADY}"] += any(STEADY in change.key for change in changes)
            try:
                self._check(partition, changes, before)
            except Exception as defect:  # noqa: BLE001 - a check that fails is a violation
                self.world.require(False, f"check of {changes[0].key}: {defect!r}")
        return answer

    def put(self, partition: str, *changes: RowChange) -> None:
        """Change rows behind the application's back."""
        assert not isinstance(super().write(partition, changes), RefusedChanges)
        for change in changes:
            self._note(partition, change)

    def record_rows(self, partition: str, task: str) -> list[Row]:
        """Return the rows of a task's record."""
        keys, query = self._keys[partition], record_of(task)
        found = keys[bisect_left(keys, query.first) : bisect_left(keys, query.end)]
        return [self.rows[partition, key] for key in found]

    def stored(self, partition: str, task: str) -> StoredTask | None:
        """Return a task as it is recorded, None if it cannot be decoded."""
        try:
            return stored_task(self.record_rows(partition, task), task)
        except CorruptRowError as error:
            self.world.require(task in self.damaged, f"{error}: not decoded")
            return None

    def _note(self, partition: str, change: RowChange) -> None:
        key, is_deleted = change.key, change.kind == "delete"
        if key.startswith("!send|"):
            (self.unsent.discard if is_deleted else self.unsent.add)((partition, key))
        elif key.startswith("!") and not key.startswith("!find|"):
            keys = self.index[task_in(key)]
            (keys.discard if is_deleted else keys.add)(key)

    def _check(self, partition: str, changes: Sequence[RowChange], before: dict[str, Any]) -> None:
        tasks, messages = list[RowChange](), defaultdict[str, list[Message]](list)
        for change in changes:
            self._note(partition, change)
            if change.key.startswith("!send|"):
                row = before[change.key] if change.kind == "delete" else self.rows[partition, change.key]
                self._check_message(change, row, messages)
            elif partition == Gates.partition and change.row is not None:
                self.world.commit_gate(_GATE.validate_json(change.row["Gate"]))
            elif change.key.endswith("|task") and partition not in _NO_TASKS:
                tasks.append(change)
        for change in tasks:
            task = change.key.removesuffix("|task")
            if change.kind == "delete":
                self._check_deletion(partition, task)
            elif (stored := self.stored(partition, task)) is not None:
                self._check_task(stored, messages[task])

    def _check_message(self, change: RowChange, row: Any, messages: dict[str, list[Message]]) -> None:
        """Check that the row of a message is deleted after it was sent, that of a child once delivered."""
        try:
            message = message_of(row)
        except CorruptRowError:
            return
        if change.kind != "delete":
            messages[message.task].append(message)
        else:
            done = self.world.delivered if message.kind in CHILD_MESSAGES else self.world.sent
            self.world.require(message.id in done, f"{message.id}: deleted too early")

    def _check_task(self, stored: StoredTask, messages: Sequence[Message]) -> None:
        task, record = stored.record.order.task, stored.record
        before, fold = self.world.records.get(task), self.folds.pop(stored.writes[0], None)
        if task in self.damaged:
            self.world.records[task] = record
            return
        require = self.world.require
        require(task not in self.deleted, f"{task}: recorded again after its deletion")
        self.world.records[task] = record
        if fold is None:
            require(before is None or before == record, f"{task}: changed without an event")
            self.world.commit(None, before, replace(record, outbox=tuple(messages)))
        else:
            require(fold.base == before, f"{task}: written over another change")
            last = fold.answers[-1].record
            self._check_events(fold)
            require(record == replace(last, closed=(), outbox=()), f"{task}: decoded as another record")
            ids = {message.id for message in last.outbox}
            require(ids == {message.id for message in messages}, f"{task}: messages {ids}")
        self._check_index(stored)

    def _check_events(self, fold: Fold) -> None:
        """Check the events of a transaction one by one."""
        before = fold.base
        for event, applied in zip(fold.events, fold.answers, strict=False):
            after = applied.record
            if after is not before:
                is_free = before.direction is Direction.UNDO or before.decision or after.suspension
                is_allowed = fold.is_deployed or is_free or not isinstance(event, Due)
                self.world.require(is_allowed, f"{after.order.task}: a deadline of a missing version counts")
                closed, outbox = after.closed[len(before.closed) :], after.outbox[len(before.outbox) :]
                self.world.commit(event, before, replace(after, closed=closed, outbox=outbox))
            before = after

    def _check_index(self, stored: StoredTask) -> None:
        """Check that the index rows of a task are those that its task row names, and are early enough."""
        task, due_at = stored.record.order.task, derive(stored.record).due_at
        if task in self.without_index:
            return
        keys = self.index[task]
        self.world.require(keys == set(index_rows(stored)), f"{task}: index rows {keys}")
        at = time_in(stored.index) if stored.index.startswith("!due|") else None
        self.world.require(at is None or (due_at and at <= due_at), f"{task}: {stored.index} after {due_at}")

    def _check_deletion(self, partition: str, task: str) -> None:
        """Check that a task is deleted as a whole after the retention has ended."""
        record, now, skew = self.world.records[task], self.world.now(), timedelta(seconds=2)
        is_over = record.finished_at is not None and record.finished_at <= now - RETENTION + skew
        is_final = derive(record).state in {ProcessState.PROCESSED, ProcessState.COMPENSATED}
        self.world.require(is_over and is_final, f"{task}: deleted ({derive(record).state})")
        is_undoable = record.order.parent in self.world.records.keys() - self.deleted
        self.world.require(not is_undoable, f"{task}: deleted before {record.order.parent}")
        left = self.record_rows(partition, task)
        self.world.require(not left, f"{task}: {len(left)} rows are left")
        self.deleted.add(task)

    def has_work(self) -> bool:
        """Return whether a sweep has anything to do."""
        now = sortable(self.world.now() + timedelta(seconds=2))
        keys = [key for keys in self.index.values() for key in keys]
        is_due = any(key.startswith("!due|") and key.split("|")[1] <= now for key in keys)
        return is_due or bool(self.unsent) or any(key.startswith(("!gate|", "!suspended|")) for key in keys)

    def check_rest(self) -> None:
        """Check that each task at rest has its index row alone, and that no message is unsent."""
        for (partition, key), row in list(self.rows.items()):
            if key.endswith("|task") and partition not in _NO_TASKS:
                task = str(row["RowKey"]).removesuffix("|task")
                stored = self.stored(partition, task)
                if stored is not None:
                    self._check_index(stored)
        finished = {task for task, record in self.world.records.items() if record.finished_at is not None}
        for task, keys in self.index.items():
            is_gone = task in self.deleted or task not in self.world.records
            wrong = [
                key
                for key in keys
                if is_gone or (task in finished and not key.startswith(("!done|", "!error|")))
            ]
            self.world.require(not wrong, f"{task}: index rows {wrong} at rest")
        self.world.require(not self.unsent, f"not sent: {sorted(self.unsent)[:3]}")
