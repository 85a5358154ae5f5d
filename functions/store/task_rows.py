"""The rows that a change of a task writes, as one transaction; nothing is written that did not change."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from functions.pattern.announcements import announcements
from functions.pattern.events import AnnouncementSent
from functions.pattern.folding import Change
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Stored
from functions.store.entities import Entity, entity, outbox_entity, task_entity
from functions.store.group_format import Operation
from functions.store.index_entities import index_entity, search_entities
from functions.store.keys import epoch_row, index_row, lost_row, order_row, outbox_row, step_row
from functions.store.transactions import Transaction

#: Writes that a task's row names. A writer whose answer was lost finds its own as long as it is among them.
_MOST_WRITES = 8


def admission(record: TaskRecord, write_id: str) -> Transaction:
    """Create a task: its state, order, steps, index row and search keys, and what is to be announced."""
    task = record.order.task
    rows = [
        task_entity(record.task, (write_id,)),
        entity(order_row(task), record.order),
        *(entity(step_row(task, number), step) for number, step in enumerate(record.steps)),
        index_entity(record),
        *search_entities(record.order),
        *(outbox_entity(each) for each in announcements(None, record)),
    ]
    return Transaction(task, tuple(Operation("create", row) for row in rows))


def written(base: Stored, write_id: str) -> tuple[str, ...]:
    """Give the ids of the latest writes once `write_id` has changed `base`."""
    return (write_id, *base.writes)[:_MOST_WRITES]


def update(
    base: Stored, changes: Sequence[Change], write_id: str, *, mends: Container[str] = ()
) -> Transaction:
    """Write the difference between `base` and the record after all changes, if the task is still as it was.

    Rows that it `mends` were not as expected: they are written whatever is there, and not deleted.
    """
    before, after = base.record, changes[-1].after
    task_row = task_entity(after.task, written(base, write_id))
    steps = [
        Operation("update", entity(step_row(after.order.task, number), new))
        for number, (old, new) in enumerate(zip(before.steps, after.steps, strict=True))
        if new is not old
    ]
    created = [
        Operation("upsert" if row["RowKey"] in mends else "create", row) for row in _created(before, changes)
    ]
    deleted = [Operation("delete", {"RowKey": key}) for key in _deleted(before, changes) if key not in mends]
    operations = (Operation("update", task_row, base.version), *steps, *created, *deleted)
    return Transaction(after.order.task, operations)


def _created(before: TaskRecord, changes: Sequence[Change]) -> Iterator[Entity]:
    after = changes[-1].after
    task = after.order.task
    if index_row(before.task) != index_row(after.task):
        yield index_entity(after)
    for epoch in after.history[len(before.history) :]:
        yield entity(epoch_row(task, epoch.epoch), epoch)
    for lost in after.lost[len(before.lost) :]:
        yield entity(lost_row(task, lost), lost)
    for change in changes:
        for announcement in announcements(change.before, change.after):
            yield outbox_entity(announcement)


def _deleted(before: TaskRecord, changes: Sequence[Change]) -> Iterator[str]:
    if index_row(before.task) != index_row(changes[-1].after.task):
        yield index_row(before.task)
    for change in changes:
        if isinstance(change.event, AnnouncementSent):
            yield outbox_row(change.event.announcement)
