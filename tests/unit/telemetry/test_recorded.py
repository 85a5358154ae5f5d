"""A trace is kept with its order and its epochs; rows that were written without one are read as before."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.records import TaskRecord
from functions.store.entities import Entity, entity, record_of, task_entity
from functions.store.keys import epoch_row, order_row, step_row
from tests.fakes.interventions import recovery, supervised
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE, TASK

_ORDERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_SUPERVISORS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _rows() -> list[Entity]:
    record = pending(LINE)
    record = replace(record, order=replace(record.order, traceparent=_ORDERS))
    record = supervised(record, replace(recovery(), traceparent=_SUPERVISORS))
    return [
        entity(order_row(record.order.task), record.order),
        task_entity(record.task, ("write-1",)),
        *(entity(step_row(TASK, number), step) for number, step in enumerate(record.steps)),
        *(entity(epoch_row(TASK, closed.epoch), closed) for closed in record.history),
    ]


def _traces(record: TaskRecord) -> tuple[str | None, str | None]:
    return record.order.traceparent, record.history[0].traceparent


def test_traces_come_back_with_the_record() -> None:
    """The order's, and that in which its epoch was ended."""
    assert _traces(record_of(_rows())) == (_ORDERS, _SUPERVISORS)


def test_rows_without_traces_are_readable() -> None:
    """They were written while nothing was exported."""
    old = [{name: value for name, value in row.items() if name != "TraceParent"} for row in _rows()]
    assert _traces(record_of(old)) == (None, None)
