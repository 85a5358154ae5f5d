"""The product's application with five scripted services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.e2e.recovery.bench import Bench, bench_with
from tests.e2e.workflows.deliveries.services import STEPS, DeliveryServices

#: Seconds that a step may take: long enough for a busy machine; recoveries follow at this interval.
COMPLETE_WITHIN = 6

#: The folder of the product's `function_app.py`.
APP = Path(__file__).parents[4]
#: Times for tests: a sweep each second, short limits and waits.
SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SUPERVISOR_THRESHOLD": "1",
    "EXTENDED_WAITS": "2",
    "SKEW_SECONDS": "0.5",
    "PICK_UP_SECONDS": "8",
    "STEP_SECONDS": ",".join(f"delivery.{step}={COMPLETE_WITHIN}" for step in STEPS),
    "BREAKER_FAILURES": "100000",
    "STATE_SHARDS": "2",
}


@asynccontextmanager
async def running(data: Path, settings: Mapping[str, str]) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps every second."""
    async with DeliveryServices().serving() as services:
        addresses = {f"{step.upper()}_URL": f"{services.url}/{step}" for step in STEPS}
        async with bench_with(services, data, {**SETTINGS, **addresses, **settings}, app=APP) as bench:
            yield bench


async def submit(bench: Bench, task: str) -> None:
    """Submit a delivery over a distance that needs a transport, on an account named after the task."""
    delivery = {
        "account": task,
        "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
        "pickup": {"latitude": 47.6423, "longitude": -122.1391},
        "dropoff": {"latitude": 45.5152, "longitude": -122.6784},
        "pickup_at": "2026-11-21T12:00:00Z",
    }
    await bench.submit(task, "deliveries", delivery)
