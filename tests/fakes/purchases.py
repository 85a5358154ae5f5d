"""A workflow whose orders hold secrets, as do the events that it waits for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import Birth, StepName, TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.records import TaskRecord
from functions.pattern.states import Way
from functions.pattern.transitions import admit
from tests.fakes.clock import START
from tests.fakes.tasks import after

CANARY = "c4n4ry-card"
CANARY_PIN = 730_214
CANARY_CODE = "c4n4ry-code"

PAY, CONFIRM, SHIP = StepName("pay"), StepName("confirm"), StepName("ship")


class Card(BaseModel):
    """A card, whose number is secret."""

    model_config = ConfigDict(extra="forbid")

    number: SecretStr
    holder: str


class Purchase(BaseModel):
    """What somebody buys."""

    model_config = ConfigDict(extra="forbid")

    amount: int
    card: Card
    pin: Annotated[int, Field(json_schema_extra={"writeOnly": True})]


class Confirmation(BaseModel):
    """What the bank's customer tells."""

    code: SecretStr
    by: str


def _pay(purchase: Purchase, _results: Mapping[StepName, Json]) -> Json:
    number = purchase.card.number.get_secret_value()
    return {"amount": purchase.amount, "card": number, "pin": str(purchase.pin)}


def _ship(_purchase: Purchase, results: Mapping[StepName, Json]) -> Json:
    return {"paid": results[PAY], "confirmed": results[CONFIRM]}


def _cancel_payment(purchase: Purchase, _results: Mapping[StepName, Json]) -> Json:
    return {"refund_to": purchase.card.number.get_secret_value()}


PURCHASES = Workflow(
    name="purchase",
    resource="purchases",
    payload=Purchase,
    steps=(
        Step(PAY, agent="pay", request=_pay, complete_within=10, undo=True, undo_request=_cancel_payment),
        Step(CONFIRM, via=Way.EVENT, payload=Confirmation, complete_within=60, needs={PAY}),
        Step(SHIP, agent="ship", request=_ship, complete_within=10, needs={CONFIRM}),
    ),
)

PAYLOAD: Mapping[str, Any] = {
    "amount": 5,
    "card": {"number": CANARY, "holder": "Ann"},
    "pin": CANARY_PIN,
}
EVENT = json.dumps({"code": CANARY_CODE, "by": "Ann"}).encode()


def purchase(task: TaskId, workflow: Workflow = PURCHASES) -> TaskRecord:
    """Create a purchase that waits for its Scheduler."""
    message = SubmissionMessage(
        task_id=task,
        workflow=workflow.name,
        payload=dict(PAYLOAD),
        submitter="tester",
        submitted_at=START,
    )
    return admit(order_of(message, workflow, Birth("0a1b2c3d")), pick_up_by=after(30))
