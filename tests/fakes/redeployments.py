"""A workflow, and what somebody deploys instead of it while its tasks are in flight."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel

from functions.pattern.definition import Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy, Way
from tests.fakes.workflows import step, workflow

SHOP = replace(
    workflow(
        step("pick", undo=True),
        step("payment", "pick", undo=True, via=Way.QUEUE),
        step("label", "pick"),
        step("send", "payment", "label", undo=True),
        name="shop",
        resource="shops",
        remedy=Remedy.COMPENSATE,
    ),
    answer=lambda parcel, _: {"weight": parcel.weight},
)
PICK, PAYMENT, LABEL, SEND = SHOP.steps


class Taller(BaseModel):
    """The payload with a field more, which is required."""

    weight: int
    height: int


def _shop(*steps: Step) -> Workflow:
    return replace(SHOP, steps=steps)


CHECK, MARK = step("check", "payment"), replace(LABEL, name=StepName("mark"))
CHANGES: dict[str, Workflow] = {
    "step inserted": _shop(PICK, PAYMENT, LABEL, CHECK, replace(SEND, needs={CHECK.name, LABEL.name})),
    "step removed": _shop(PICK, PAYMENT, replace(SEND, needs={PAYMENT.name})),
    "step renamed": _shop(PICK, PAYMENT, MARK, replace(SEND, needs={PAYMENT.name, MARK.name})),
    "agent changed": _shop(PICK, PAYMENT, replace(LABEL, agent="printer"), SEND),
    "required field added": replace(SHOP, payload=Taller),
}
