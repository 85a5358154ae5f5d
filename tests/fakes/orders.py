"""A workflow `orders` for tests of the interfaces: one payment behind a queue, which can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.numbers import PLAIN_NUMBER
from functions.pattern.states import Remedy, Way
from functions.services.service import booking_service
from functions.workflows.registration import Registration

PAYMENT = StepName("payment")

_Text = Annotated[str, Field(min_length=1, max_length=100)]
_EXAMPLE: dict[str, Any] = {
    "customer": "C-1042",
    "currency": "EUR",
    "items": [{"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}],
}


class Item(BaseModel):
    """One line of an order."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    sku: _Text
    quantity: Annotated[int, Field(strict=True, ge=1)]
    unit_price: Annotated[Decimal, PLAIN_NUMBER]


class OrderPayload(BaseModel):
    """What is ordered: `items` is not empty, and unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid", hide_input_in_errors=True, json_schema_extra={"examples": [_EXAMPLE]}
    )

    customer: _Text
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    items: Annotated[tuple[Item, ...], Field(min_length=1)]


class Payment(BaseModel):
    """What the payment service is asked for."""

    customer: str
    amount: Decimal
    currency: str


def _payment_request(order: OrderPayload, _results: Mapping[StepName, Json]) -> Json:
    amount = sum((item.quantity * item.unit_price for item in order.items), Decimal(0))
    return {"customer": order.customer, "amount": str(amount), "currency": order.currency}


ORDERS = Workflow(
    name="orders",
    resource="orders",
    noun="order",
    payload=OrderPayload,
    on_failure=Remedy.HOLD,
    on_exhausted=Remedy.COMPENSATE,
    steps=(
        Step(
            PAYMENT, agent="payment", request=_payment_request, complete_within=60, undo=True, via=Way.QUEUE
        ),
    ),
)

#: With a sample payment service, at the path that the sample settings name.
REGISTRATION = Registration(ORDERS, services=(booking_service("payments", Payment),))
