"""The payload of an order."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.workflow import PLAIN_NUMBER

Text = Annotated[str, Field(min_length=1, max_length=100)]
Price = Annotated[Decimal, PLAIN_NUMBER, Field(gt=0, le=100_000, max_digits=9, decimal_places=2)]


class Item(BaseModel):
    """One line of an order."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    sku: Text
    quantity: Annotated[int, Field(strict=True, ge=1, le=1_000)]
    unit_price: Price


_TEA: dict[str, Any] = {"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}


class OrderPayload(BaseModel):
    """An order of goods, paid at once. Prices are in `currency` (ISO 4217)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        json_schema_extra={
            "examples": [
                {"customer": "C-1042", "currency": "EUR", "items": [_TEA]},
                {"customer": "C-2077", "currency": "EUR", "items": [_TEA]},
            ]
        },
    )

    customer: Text
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    items: Annotated[tuple[Item, ...], Field(min_length=1, max_length=100)]

    @property
    def total(self) -> Decimal:
        """Return the amount to pay."""
        return sum((item.quantity * item.unit_price for item in self.items), Decimal(0))
