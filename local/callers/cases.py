"""The cases of the demo, and their expected outcomes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import cycle, islice

from local.callers.client import SAMPLE_DELIVERY, SAMPLE_ORDER, Body, OrderState, OrderStatus

#: The account whose deliveries are refused.
SUSPENDED_ACCOUNT = "A-suspended"

_FAR_AWAY = {"latitude": 45.5152, "longitude": -122.6784}


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected outcome of a submission: its state, and those of its steps."""

    state: OrderState
    steps: Mapping[str, str]

    def unmet(self, order: OrderStatus | None) -> str | None:
        """Return the unexpected outcome in words, or `None`; `order` is the last status, if there was one."""
        if order is None:
            return "never seen"
        if order.state is not self.state:
            return f"{order.state} ({order.last_error})" if order.last_error else order.state
        seen = {step.name: step.state for step in order.steps}
        others = [f"{name} {seen.get(name)}" for name, state in self.steps.items() if seen.get(name) != state]
        return f"{order.state}, but {', '.join(others)}" if others else None


class Case(Enum):
    """One kind of submission: its label, its resource, and its expected outcome."""

    #: An order that is paid.
    ORDER = ("order, paid", "orders", Expectation(OrderState.PROCESSED, {"payment": "Completed"}))
    #: Pickup and dropoff lie within the service area, so no transport is needed.
    NEAR = (
        "delivery near by, no transport",
        "deliveries",
        Expectation(
            OrderState.PROCESSED,
            {
                "account": "Completed",
                "package": "Completed",
                "transport": "Skipped",
                "drone": "Completed",
                "delivery": "Completed",
            },
        ),
    )
    #: The dropoff lies outside, so a transport is quoted too.
    FAR = (
        "delivery far away, transport",
        "deliveries",
        Expectation(
            OrderState.PROCESSED,
            dict.fromkeys(("account", "package", "transport", "drone", "delivery"), "Completed"),
        ),
    )
    #: The account is suspended: the first step is refused, before anything needs an undo.
    SUSPENDED = (
        "delivery, account suspended",
        "deliveries",
        Expectation(
            OrderState.COMPENSATED,
            {"account": "Refused", **dict.fromkeys(("package", "drone", "delivery"), "Not started")},
        ),
    )
    #: The drone is refused for good: the steps that were completed before are undone.
    NO_DRONE = (
        "delivery, drone refused",
        "deliveries",
        Expectation(
            OrderState.COMPENSATED,
            {"account": "Completed", "package": "Undone", "drone": "Undone", "delivery": "Not started"},
        ),
    )

    def __init__(self, label: str, resource: str, expectation: Expectation) -> None:
        self.label = label
        self.resource = resource
        self.expectation = expectation


#: Deliveries are sent in this order, repeatedly; half of them are simple ones.
_DELIVERIES = (Case.NEAR, Case.FAR, Case.SUSPENDED, Case.NO_DRONE, Case.NEAR, Case.FAR, Case.NEAR, Case.NEAR)


@dataclass(frozen=True, slots=True)
class Submission:
    """One order or delivery, with an id that the caller chooses."""

    id: str
    case: Case

    @classmethod
    def new(cls, prefix: str, case: Case) -> Submission:
        """Give one a new id."""
        return cls(f"{prefix}-{uuid.uuid4().hex[:16]}", case)

    def body(self, reply_to: str | None = None) -> Body:
        """Return what is submitted under its id."""
        changes: dict[str, object] = {}
        if reply_to is not None:
            changes["reply_to"] = reply_to
        if self.case is Case.ORDER:
            return SAMPLE_ORDER | changes
        if self.case is Case.FAR:
            changes["dropoff"] = _FAR_AWAY
        if self.case is Case.SUSPENDED:
            changes["account"] = SUSPENDED_ACCOUNT
        return SAMPLE_DELIVERY | changes

    def in_batch(self, reply_to: str | None = None) -> Body:
        """Return the same with its id, as part of a batch."""
        return {**self.body(reply_to), "id": self.id}


def submissions(orders: int, deliveries: int) -> list[Submission]:
    """Return so many orders and deliveries, with new ids."""
    return [Submission.new("demo", case) for case in _cases(orders, deliveries)]


def _cases(orders: int, deliveries: int) -> Iterator[Case]:
    yield from [Case.ORDER] * orders
    yield from islice(cycle(_DELIVERIES), deliveries)
