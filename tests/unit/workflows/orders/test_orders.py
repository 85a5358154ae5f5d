"""The workflow `orders`: its payload, request, policies and output."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from functions.core.record import StepType
from functions.workflow import Results
from functions.workflows.orders.definition import ORDERS
from functions.workflows.orders.models import OrderPayload

ITEM: dict[str, Any] = {"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}
ORDER: dict[str, Any] = {"customer": "C-1042", "currency": "EUR", "items": [ITEM]}


def test_order_has_the_names_and_limits_of_the_first_release() -> None:
    """They are part of the API."""
    assert (ORDERS.name, ORDERS.resource, ORDERS.noun) == ("orders", "orders", "order")
    assert {spec.name: spec.complete_within for spec in ORDERS.specs} == {"payment": 60}
    assert ORDERS.cancel_within == 86_400
    assert (ORDERS.on_failure, ORDERS.on_exhausted) == ("keep", "compensate")


def test_payment_requests_the_exact_sum_from_an_agent_behind_a_queue() -> None:
    """Amounts are decimal: 0.10 is no double."""
    items = [ITEM, ITEM | {"quantity": 3, "unit_price": "0.10"}]
    payload = OrderPayload.model_validate(ORDER | {"items": items})
    assert payload.total == Decimal("10.10")
    expected = {"customer": "C-1042", "amount": "10.10", "currency": "EUR"}
    request, output = ORDERS.steps["payment"].request, ORDERS.output
    assert request is not None
    assert output is not None
    assert request(payload, Results({}, "payment")) == expected
    [spec] = ORDERS.specs
    assert (spec.type, spec.undo) == (StepType.QUEUE, True)
    assert output(payload, Results({}, "output")) == {"paid": "10.10", "currency": "EUR"}


@pytest.mark.parametrize(
    "change",
    [
        *({"customer": customer} for customer in ("", "x" * 101)),
        *({"currency": currency} for currency in ("euro", "EUR\n")),
        *({"items": items} for items in ([], [ITEM] * 101, [ITEM | {"colour": "green"}])),
        *({"items": [ITEM | {"quantity": quantity}]} for quantity in (0, "2", 1_001)),
        *({"items": [ITEM | {"unit_price": price}]} for price in ("0", "1_0", "0.001", "NaN")),
        {"priority": 1},
    ],
)
def test_wrong_order_is_rejected(change: dict[str, Any]) -> None:
    """An unknown field, too."""
    with pytest.raises(ValidationError):
        OrderPayload.model_validate(ORDER | change)
