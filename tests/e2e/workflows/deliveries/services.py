"""The five services behind the deliveries: they do what their scripts say, and keep what they were asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.recovery.remote import RemoteService

#: The steps, in an order in which they can be done.
STEPS = ("account", "package", "transport", "drone", "delivery")
#: Those that are undone, in the order in which that happens.
UNDONE = ("delivery", "drone", "package")
#: The effects of a delivery that was made, sorted.
BOOKED_ONCE = ["delivery/do", "drone/do", "package/do", "transport/do"]

_CONFIRMATIONS: Mapping[str, Mapping[str, Any]] = {
    "package": {"tracking_number": "T-7"},
    "transport": {"carrier": "C-7", "price": "9.80", "currency": "EUR"},
    "drone": {"drone": "drone-7"},
    "delivery": {"expected_at": "2026-11-21T13:00:00Z"},
}


class DeliveryServices(RemoteService):
    """Knows every account, and confirms what is booked under a task's id."""

    def shown(self, step: str, task: str) -> Mapping[str, Any] | None:
        """Show an account, or what was confirmed of a booking that stands."""
        if step == "account":
            return {"suspended": False}
        return _CONFIRMATIONS[step] if step in booked(self, task) else None


def booked(services: RemoteService, task: str) -> set[str]:
    """Name the services at which something is booked for a task."""
    effects = services.effects(task)
    return {step for step in STEPS if f"{step}/do" in effects and f"{step}/undo" not in effects}


def asking(task: str, step: str) -> str:
    """Name the call by which a step is done; an account, which has the task's name here, is only shown."""
    return f"{task}/{step}/{'show' if step == 'account' else 'do'}"
