"""The rows by which tasks are found: the index row of each, and those of its search keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functions.pattern.error_class import class_of_task, failed_step
from functions.pattern.records import Order, TaskRecord
from functions.pattern.states import ProcessState
from functions.store.entities import Entity
from functions.store.keys import index_row, search_row


def index_entity(record: TaskRecord) -> Entity:
    """Make the index row that belongs to the task's state; of one in `Error`, it tells the cause."""
    row = _of_order(record.order) | {
        "RowKey": index_row(record.task),
        "OrderID": record.task.order_id,
        "ProcessState": str(record.task.process_state),
    }
    if record.task.process_state is not ProcessState.ERROR:
        return row
    return row | _there({"Step": failed_step(record), "ErrorClass": class_of_task(record)})


def search_entities(order: Order) -> tuple[Entity, ...]:
    """Make the rows by which a task is found; they never change."""
    keys = (search_row(key, order.submitted_at, order.task) for key in order.search_keys)
    return tuple(_of_order(order) | {"RowKey": key} for key in keys)


def _of_order(order: Order) -> Entity:
    columns = {
        "Workflow": order.workflow,
        "WorkflowVersion": order.workflow_version,
        "SubmittedAt": order.submitted_at,
        "Submitter": order.submitter,
        "CorrelationID": order.correlation_id,
    }
    return _there(columns)


def _there(columns: Mapping[str, Any]) -> Entity:
    return {name: value for name, value in columns.items() if value is not None}
