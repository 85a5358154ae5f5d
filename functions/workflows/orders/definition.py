"""The workflow `orders`: a task is processed when its payment is made, by an Agent behind a queue."""

from __future__ import annotations

from functions.pattern.definition import Json, Results, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy, Way
from functions.workflows.orders.models import OrderPayload

PAYMENT = StepName("payment")


def _payment_request(order: OrderPayload, _results: Results) -> Json:
    return {"customer": order.customer, "amount": str(order.total), "currency": order.currency}


def _answer(order: OrderPayload, _results: Results) -> Json:
    return {"paid": str(order.total), "currency": order.currency}


ORDERS = Workflow(
    name="orders",
    resource="orders",
    noun="order",
    payload=OrderPayload,
    on_failure=Remedy.HOLD,
    on_exhausted=Remedy.COMPENSATE,
    answer=_answer,
    cancel_within=86_400,
    steps=(
        Step(
            PAYMENT, agent="payment", request=_payment_request, complete_within=60, undo=True, via=Way.QUEUE
        ),
    ),
)
