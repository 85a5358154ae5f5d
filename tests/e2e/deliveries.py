"""The product's application with scripted services of its deliveries, which record the calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from local.platform import ROOT
from tests.e2e.recovery.bench import Bench, bench_with
from tests.e2e.recovery.remote import RemoteService

APP = ROOT
#: Times for tests: a sweep each second, short waits, and a short limit for the step that tests hold up.
SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SUPERVISOR_THRESHOLD": "1",
    "EXTENDED_WAITS": "2",
    "SKEW_SECONDS": "0.5",
    "PICK_UP_SECONDS": "8",
    "STEP_SECONDS": "delivery.drone=4",
    "BREAKER_FAILURES": "100000",
    "STATE_SHARDS": "4",
}
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


@asynccontextmanager
async def running(data: Path, settings: Mapping[str, str]) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps every second."""
    async with DeliveryServices().serving() as services:
        chosen = {**SETTINGS, **addresses(services.url), **settings}
        async with bench_with(services, data, chosen, app=APP) as bench:
            yield bench


def addresses(url: str) -> dict[str, str]:
    """Return the settings with the addresses of the five services below `url`."""
    return {f"{step.upper()}_URL": f"{url}/{step}" for step in STEPS}


#: A delivery over a distance that needs a transport, without an account.
DELIVERY: Mapping[str, Any] = {
    "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
    "pickup": {"latitude": 47.6423, "longitude": -122.1391},
    "dropoff": {"latitude": 45.5152, "longitude": -122.6784},
    "pickup_at": "2026-11-21T12:00:00Z",
}


async def submit(bench: Bench, task: str) -> None:
    """Submit a delivery on an account named after the task."""
    await bench.submit(task, "deliveries", {**DELIVERY, "account": task})
