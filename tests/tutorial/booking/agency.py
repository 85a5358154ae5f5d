"""Books trips with the recipe's workflow on a platform, and checks their effects at the services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

from functions.core.record import StepType
from tests.e2e.recovery.bench import Bench, Task, bench_with
from tests.tutorial.booking.services import SERVICES, TravelServices
from tests.tutorial.project import RECIPES, follow

#: The step without an undo: an e-mail that was sent.
_STAYS = frozenset({"ticket"})
_PAID_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Agency:
    """The platform with the recipes, in `app`, and the travel services."""

    bench: Bench
    services: TravelServices
    app: Path

    async def book(self, booking: str, *, paid_in: float = 0, **other: Any) -> None:
        """Book a trip of three nights with a car, whose pay-day is in `paid_in` seconds."""
        departure = datetime.now(UTC) + _PAID_BEFORE + timedelta(seconds=paid_in)
        trip = {"traveller": "ada@example.com", "nights": 3, "car": True, "price": 900, **other}
        await self.bench.submit(booking, "bookings", {**trip, "departure": departure.isoformat()})

    async def approve(self, booking: str, *, approved: bool) -> None:
        """Send the approver's decision as soon as the booking is recorded."""
        await self.bench.until(booking, bool)
        url = f"/api/bookings/{booking}/events/approval"
        async with self.bench.session.post(url, json={"approved": approved}) as answer:
            assert answer.status == HTTPStatus.OK, await answer.text()

    async def cancel(self, booking: str, resource: str = "bookings") -> None:
        """Cancel as the caller does."""
        async with self.bench.session.delete(f"/api/{resource}/{booking}") as answer:
            assert answer.status == HTTPStatus.ACCEPTED, await answer.text()

    async def output_of(self, booking: str, resource: str = "bookings") -> Mapping[str, Any]:
        """Return the output of a processed booking."""
        async with self.bench.session.get(f"/api/{resource}/{booking}") as answer:
            found: Mapping[str, Any] = (await answer.json())["output"]
            return found

    async def is_booked(self, booking: str, *, effects: int = 7) -> Task:
        """Check that it is processed, and that each completed step had its effect once."""
        task = await self.bench.until_state(booking, "Processed")
        found = self.services.effects(booking)
        completed = [f"{step['name']}/do" for step in _called(task) if step["state"] == "Completed"]
        assert sorted(found) == sorted(completed)
        assert len(found) == effects
        self._check_keys(booking)
        return task

    async def is_undone(self, booking: str) -> Task:
        """Check that each step that was started was undone once, in reverse order, and has no effect left."""
        task = await self.bench.until_state(booking, "Compensated")
        effects = self.services.effects(booking)
        done = [effect.removesuffix("/do") for effect in effects if effect.endswith("/do")]
        undone = [effect.removesuffix("/undo") for effect in effects if effect.endswith("/undo")]
        started = [step["name"] for step in _called(task) if step["name"] not in _STAYS]
        assert undone == list(reversed(started))
        assert len(done) == len({*done}), done
        assert {*done} - _STAYS <= {*undone}
        self._check_keys(booking)
        return task

    def _check_keys(self, booking: str) -> None:
        """Check that each effect has one key."""
        for effect, keys in self.services.keys.items():
            assert len(keys) == 1 or not effect.startswith(f"{booking}/"), keys


def _called(task: Task) -> Sequence[Mapping[str, Any]]:
    """Return the steps with a service that were started, in the order of their starts."""
    started = [
        step
        for step in task["steps"]
        if step["do"]["number"] is not None and step["spec"]["type"] == StepType.ACTIVITY
    ]
    return sorted(started, key=lambda step: int(step["do"]["number"]))


@asynccontextmanager
async def open_agency(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Agency]:
    """Build the application from the recipes' pages, and run it."""
    app = folder / "app"
    app.mkdir()
    async with TravelServices().serving() as services:
        await asyncio.to_thread(follow, RECIPES, app, services.url)
        chosen = {
            **{f"{name.upper()}_URL": f"{services.url}/{name}" for name in SERVICES},
            "SUPERVISOR_SCHEDULE": "* * * * * *",
            "SKEW_SECONDS": "0.5",
            "BREAKER_FAILURES": "100000",
            "STATE_SHARDS": "4",
            **settings,
        }
        async with bench_with(services, folder / "data", chosen, app=app) as bench:
            yield Agency(bench, services, app)
