"""The application with the tests' deliveries, whose five services are scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.fleet.services import STEPS, FleetServices
from tests.e2e.recovery.bench import Bench, bench_with

APP = Path(__file__).parent / "app"
#: Times for tests: a sweep each second, short waits, and a short limit for the step that tests hold up.
SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SUPERVISOR_THRESHOLD": "1",
    "EXTENDED_WAITS": "2",
    "SKEW_SECONDS": "0.5",
    "PICK_UP_SECONDS": "8",
    "STEP_SECONDS": "delivery.drone=4",
    "BREAKER_FAILURES": "100000",
    "STATE_SHARDS": "2",
}

#: What a test delivers.
PARCEL: Mapping[str, Any] = {"account": "A-1042", "package": {"weight_kg": 2.5, "tag": "spare parts"}}


@asynccontextmanager
async def running(data: Path, settings: Mapping[str, str], *, app: Path = APP) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps every second."""
    async with FleetServices().serving() as remote:
        addresses = {f"{step.upper()}_URL": f"{remote.url}/{step}" for step in STEPS}
        async with bench_with(remote, data, {**SETTINGS, **addresses, **settings}, app=app) as bench:
            yield bench


async def submit(bench: Bench, task: str) -> None:
    """Submit a delivery."""
    await bench.submit(task, "deliveries", PARCEL)
