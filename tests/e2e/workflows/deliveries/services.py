"""The five services of the deliveries: they do what their scripts say, and record the calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.recovery.remote import RemoteService

#: The steps, in an order in which they can be done.
STEPS = ("account", "package", "transport", "drone", "delivery")
#: The steps that can be undone, in the order of their undo.
UNDONE = ("delivery", "drone", "package")
#: The effects of a completed delivery, sorted.
BOOKED_ONCE = ["delivery/do", "drone/do", "package/do", "transport/do"]

_CONFIRMATIONS: Mapping[str, Mapping[str, Any]] = {
    "package": {"tracking_number": "T-7"},
    "transport": {"carrier": "C-7", "price": "9.80", "currency": "EUR"},
    "drone": {"drone": "drone-7"},
    "delivery": {"expected_at": "2026-11-21T13:00:00Z"},
}


class DeliveryServices(RemoteService):
    """Has every account, and confirms what is booked under a task's id."""

    def shown(self, step: str, task: str) -> Mapping[str, Any] | None:
        """Return an account, or the confirmation of a booking that was not undone."""
        if step == "account":
            return {"suspended": False}
        return _CONFIRMATIONS[step] if step in booked(self, task) else None


def booked(services: RemoteService, task: str) -> set[str]:
    """Return the services that have a booking for a task."""
    effects = services.effects(task)
    return {step for step in STEPS if f"{step}/do" in effects and f"{step}/undo" not in effects}


def asking(task: str, step: str) -> str:
    """Return the effect key of a step; an account, which has the task's name here, is only read."""
    return f"{task}/{step}/{'show' if step == 'account' else 'do'}"
