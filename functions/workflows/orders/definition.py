"""The workflow `orders`: the payment is charged by an Agent behind a queue."""

from __future__ import annotations

from functions.workflow import Json, QueueStep, Results, Workflow, days
from functions.workflows.orders.models import OrderPayload


def charge(order: OrderPayload, _results: Results) -> Json:
    """Return the request of the payment."""
    return {"customer": order.customer, "amount": str(order.total), "currency": order.currency}


def _output(order: OrderPayload, _results: Results) -> Json:
    return {"paid": str(order.total), "currency": order.currency}


PAYMENT = QueueStep("payment", request=charge, complete_within=60, undo=True)

ORDERS = Workflow(
    "orders",
    payload=OrderPayload,
    steps=[PAYMENT],
    on_failure="keep",
    on_exhausted="compensate",
    cancel_within=days(1),
    output=_output,
)
