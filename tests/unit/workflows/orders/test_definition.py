"""The workflow `orders`: what callers may order, and what is paid for it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from functions.workflows.orders.definition import ORDERS, PAYMENT
from functions.workflows.orders.models import OrderPayload

ITEM: dict[str, Any] = {"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}
ORDER: dict[str, Any] = {"customer": "C-1042", "currency": "EUR", "items": [ITEM]}


def test_payment_is_asked_for_the_exact_sum() -> None:
    """Amounts are decimal all the way: a third of ten cents is nobody's profit."""
    items = [ITEM, ITEM | {"quantity": 3, "unit_price": "0.10"}]
    payload = OrderPayload.model_validate(ORDER | {"items": items})
    assert payload.total == Decimal("10.10")
    assert ORDERS.step(PAYMENT).request(payload, {}) == {
        "customer": "C-1042",
        "amount": "10.10",
        "currency": "EUR",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"customer": ""},
        {"customer": "x" * 101},
        {"currency": "euro"},
        {"currency": "EUR\n"},
        {"items": []},
        {"items": [ITEM] * 101},
        {"items": [ITEM | {"quantity": 0}]},
        {"items": [ITEM | {"quantity": "2"}]},
        {"items": [ITEM | {"quantity": 1_001}]},
        {"items": [ITEM | {"unit_price": "0"}]},
        {"items": [ITEM | {"unit_price": "0.001"}]},
        {"items": [ITEM | {"unit_price": "NaN"}]},
        {"items": [ITEM | {"colour": "green"}]},
        {"priority": 1},
    ],
)
def test_wrong_order_is_refused(change: dict[str, Any]) -> None:
    """Strict from the start: what is not understood is not sold."""
    with pytest.raises(ValidationError):
        OrderPayload.model_validate(ORDER | change)


def test_caller_is_answered_what_was_paid() -> None:
    """In the order's currency."""
    assert ORDERS.answer is not None
    assert ORDERS.answer(OrderPayload.model_validate(ORDER), {}) == {"paid": "9.80", "currency": "EUR"}
