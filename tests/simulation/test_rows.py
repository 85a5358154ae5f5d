"""The rows that the application writes are read correctly, by code that is not the application's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from functions.pattern.announcements import announcements
from functions.pattern.events import Claimed, Recovered, StepStarted
from functions.pattern.identity import Epoch, SchedulerId, StartId, TaskId
from functions.pattern.records import Order, TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.transitions import admit, apply
from functions.store.entities import (
    entity,
    outbox_entity,
    task_entity,
)
from functions.store.index_entities import index_entity
from functions.store.keys import epoch_row, order_row, step_row
from tests.fakes.orders import ORDERS, PAYMENT
from tests.fakes.workflows import BIRTH
from tests.simulation.checks.rows import tasks_of

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_LATER = _NOW + timedelta(seconds=9)
_TASK = TaskId("order-1")


def test_rows_of_a_recovered_task_are_read() -> None:
    """The task, its steps, closed epochs and announcements."""
    record = _recovered()
    found = tasks_of(_rows(record))[_TASK]
    assert found.task is not None
    assert (found.task.state, found.task.epoch, found.task.failure_count) == ("Pending", 2, 1)
    (closed,) = found.history
    assert (closed.ended_by, closed.state, closed.locked_by) == ("recovered", "Processing", "order-1.1")
    assert (closed.steps[0].state, closed.steps[0].complete_by) == ("Running", _LATER)
    assert found.steps[0].started_at == _NOW
    assert len(found.outbox) == 1
    assert not found.is_finished


def _recovered() -> TaskRecord:
    order = Order(
        task=_TASK,
        birth=BIRTH,
        workflow="orders",
        workflow_version=1,
        shape=ORDERS.shape,
        payload=b"{}",
        digest="",
        submitter="",
        submitted_at=_NOW,
        reply_to="notices-demo",
    )
    record = admit(order, pick_up_by=_LATER)
    scheduler = SchedulerId("order-1.1")
    for event, at in (
        (Claimed(epoch=Epoch(1), scheduler=scheduler, start_by=_LATER), _NOW),
        (
            StepStarted(
                epoch=Epoch(1),
                scheduler=scheduler,
                step=PAYMENT,
                complete_by=_LATER,
                activity=1,
                start_id=StartId("s"),
            ),
            _NOW,
        ),
        (Recovered(epoch=Epoch(1), start_by=_LATER), _LATER),
    ):
        changed = apply(record, event, at)
        assert not isinstance(changed, Refused)
        record = changed
    return record


def _rows(record: TaskRecord) -> list[dict[str, Any]]:
    rows = [
        task_entity(record.task, ("a write",)),
        entity(order_row(record.order.task), record.order),
        *(entity(step_row(_TASK, number), step) for number, step in enumerate(record.steps)),
        *(entity(epoch_row(_TASK, closed.epoch), closed) for closed in record.history),
        index_entity(record),
        *(outbox_entity(each) for each in announcements(None, record)),
    ]
    return sorted(rows, key=lambda row: str(row["RowKey"]))
