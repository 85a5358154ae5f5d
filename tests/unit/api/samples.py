"""An order as callers send it, and what makes an answer a problem document."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

from tests.fakes.asgi import HttpAnswer

ITEM: dict[str, Any] = {"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}
ORDER: dict[str, Any] = {"customer": "C-1042", "currency": "EUR", "items": [ITEM]}


class WithoutSchema(BaseModel):
    """A model that has no JSON schema."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    field: range | None = None
    text: str = ""


INSIDE = ("Traceback", "functions.", "pydantic", "azure", "sqlite", "/work", "site-packages", "Error(")


class Priced(BaseModel):
    """A model whose validator raises `decimal.InvalidOperation`, which is no `ValueError`."""

    price: Annotated[str, AfterValidator(lambda price: str(Decimal(price)))]


def problem(answer: HttpAnswer, status: int) -> dict[str, Any]:
    """Check that the answer is a problem document of `status` without anything of the inside, and give it."""
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json
    assert document["status"] == status
    assert document["title"]
    assert not [word for word in INSIDE if word in answer.body.decode()]
    return document


def wrong_fields(answer: HttpAnswer) -> list[str]:
    """Check that the answer is a 422, and name the fields that it names."""
    return [fault["field"] for fault in problem(answer, 422)["errors"]]
