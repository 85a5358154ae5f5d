"""What is deployed on a host, as a file says that a setting names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from functions.pattern.definition import Json, Results, Step, Workflow
from functions.pattern.identity import StepName
from functions.workflows.registration import Registration
from functions.workflows.registry import load_registrations
from tests.chaos.app.drawn import drawn_registrations
from tests.chaos.app.sending import WatchedAgent

#: The product's own, of one payment.
[ORDERS] = [each.workflow for each in load_registrations() if each.workflow.resource == "orders"]
#: A step that later versions have besides, and its Agent.
RECEIPT = "receipt"


class Deployed(BaseModel):
    """The newest version of the orders, the older of which are kept, and a step's limit in seconds.

    Workflows are drawn by the `seed`, if there is one.
    """

    model_config = ConfigDict(frozen=True)

    version: int
    step: float
    seed: int | None = None

    @property
    def registrations(self) -> Sequence[Registration]:
        """What the application is made of."""
        newest, *older = [orders_of(number, self.step) for number in range(self.version, 0, -1)]
        drawn = () if self.seed is None else drawn_registrations(self.seed, self.version, self.step)
        return [_watched(each) for each in (Registration(newest, older=tuple(older)), *drawn)]

    @property
    def following(self) -> Deployed:
        """The next deployment."""
        return self.model_copy(update={"version": self.version + 1})


def _watched(registration: Registration) -> Registration:
    """Have the calls of its Agents tell when they are sent."""
    steps = (step for version in registration.versions for step in version.steps)
    return replace(registration, agents={step.agent: WatchedAgent for step in steps if not step.via.waits})


def orders_of(version: int, limit: float) -> Workflow:
    """Make a version: the product's own; then one with a receipt after the payment, or before it, in turn."""
    if version == 1:
        return ORDERS
    [payment] = ORDERS.steps
    is_before = version % 2 == 1
    receipt = Step(
        StepName(RECEIPT),
        agent=RECEIPT,
        request=_receipt_request,
        complete_within=limit,
        undo=True,
        needs=frozenset() if is_before else frozenset({payment.name}),
    )
    if not is_before:
        return replace(ORDERS, version=version, steps=(payment, receipt))
    payment = replace(payment, needs=frozenset({receipt.name}))
    return replace(ORDERS, version=version, steps=(receipt, payment))


def _receipt_request(order: Any, _results: Results) -> Json:
    return {"customer": order.customer}
