"""The five services of the tests' deliveries: they do what their scripts say, and record it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.recovery.remote import RemoteService

#: The steps, in an order in which they can be done.
STEPS = ("account", "package", "transport", "drone", "delivery")
#: The effects of a completed delivery, sorted.
DONE_ONCE = sorted(f"{step}/do" for step in STEPS)


class FleetServices(RemoteService):
    """Confirms the packages that it has labelled."""

    def shown(self, step: str, task: str) -> Mapping[str, Any] | None:
        """Return the number of a package."""
        done = f"{step}/do" in self.effects(task) and f"{step}/undo" not in self.effects(task)
        return {"tracking_number": "T-7"} if done else None


def asking(task: str, step: str) -> str:
    """Return the effect key of a step."""
    return f"{task}/{step}/do"
