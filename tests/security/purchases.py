"""A workflow whose orders and events hold secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Secret, SecretStr

from functions.workflow import EventStep, Json, Results, Step, Workflow

CANARY = "c4n4ry-card"
CANARY_PIN = 730_214
CANARY_CODE = "c4n4ry-code"


class Card(BaseModel):
    """A card with a secret number."""

    model_config = ConfigDict(extra="forbid")

    number: SecretStr
    holder: str


class Purchase(BaseModel):
    """The payload."""

    model_config = ConfigDict(extra="forbid")

    amount: int
    card: Card
    pin: Secret[int]


class Charge(BaseModel):
    """The result of the payment."""

    receipt: str
    token: SecretStr


class Confirmation(BaseModel):
    """The event of the bank's customer."""

    code: SecretStr
    by: str


def _pay(purchase: Purchase, _results: Results) -> Json:
    number = purchase.card.number.get_secret_value()
    return {"amount": purchase.amount, "card": number, "pin": purchase.pin.get_secret_value()}


def _ship(_purchase: Purchase, results: Results) -> Json:
    return {"paid": results[PAY].receipt, "confirmed": results[CONFIRM].code.get_secret_value()}


def _refund(purchase: Purchase, _results: Results, _result: object) -> Json:
    return {"refund_to": purchase.card.number.get_secret_value()}


PAY = Step("pay", request=_pay, result=Charge, complete_within=10, undo=_refund)
CONFIRM = EventStep("confirm", event=Confirmation, complete_within=60, needs=[PAY])
SHIP = Step("ship", request=_ship, complete_within=10, needs=[PAY, CONFIRM])
PURCHASES = Workflow(
    "purchase",
    resource="purchases",
    payload=Purchase,
    steps=[PAY, CONFIRM, SHIP],
    output=lambda *_: {"card": CANARY},
)

PAYLOAD: Mapping[str, Any] = {
    "amount": 5,
    "card": {"number": CANARY, "holder": "Ann"},
    "pin": CANARY_PIN,
}
EVENT = json.dumps({"code": CANARY_CODE, "by": "Ann"})
CHARGED = json.dumps({"receipt": "R-1", "token": CANARY})
