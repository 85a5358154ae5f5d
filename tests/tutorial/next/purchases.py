"""Purchases: over 1,000 EUR, an operator has to approve them within three days."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.workflow import EventStep, Json, Results, Step, Workflow, days
from functions.workflows_next.registration import Registration


class Purchase(BaseModel):
    """An item to buy."""

    model_config = ConfigDict(extra="forbid")

    item: str
    amount: int


class Approval(BaseModel):
    """The decision of the approver."""

    model_config = ConfigDict(extra="forbid")

    approved: bool


def is_large(purchase: Purchase, _results: Results) -> bool:
    """Return whether the purchase needs an approval."""
    return purchase.amount > 1_000


def is_approved(_purchase: Purchase, results: Results) -> bool:
    """Return whether it may be ordered: a small purchase has no approval."""
    approval = results[APPROVE]
    return approval is None or approval.approved


def _order(purchase: Purchase, _results: Results) -> Json:
    return purchase.model_dump()


def _output(_purchase: Purchase, results: Results) -> Json:
    return {"ordered": results[ORDER] is not None}


APPROVE = EventStep(
    "approve", when=is_large, event=Approval, complete_within=days(3), on_timeout={"approved": False}
)
ORDER = Step(
    "order",
    agent="shop",
    needs=[APPROVE],
    when=is_approved,
    request=_order,
    complete_within=20,
    undo=True,
)

PURCHASES = Workflow(
    "purchase", resource="purchases", payload=Purchase, steps=[APPROVE, ORDER], output=_output
)

REGISTRATION = Registration(PURCHASES)
