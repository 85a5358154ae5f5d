"""A reader follows the tutorial exactly, and sees the output that it shows."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from local.platform import ANY_PORTS, Platform, PlatformOptions
from tests.e2e.caller import PATIENCE
from tests.tutorial.project import TripServices, follow_tutorial, scene

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

_HOST = "http://127.0.0.1:7071"


@dataclass(frozen=True, slots=True)
class Reader:
    """Runs the tutorial's commands, and checks the results."""

    platform: Platform
    services: TripServices

    async def types(self, command: str) -> str:
        """Run a command of the tutorial, with the ports of this platform."""
        words = shlex.split(command.replace(_HOST, self.platform.addresses.host))
        process = await asyncio.create_subprocess_exec(
            *words, "--silent", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        return printed.decode()

    async def books(self, command: str) -> None:
        """Book a trip."""
        printed = await self.types(command)
        assert printed.startswith("HTTP/1.1 202 Accepted"), printed

    async def sees(self, trip: str, state: str) -> dict[str, Any]:
        """Poll a trip until it is in `state`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found: dict[str, Any] = json.loads(await self.types(f"curl {_HOST}/api/trips/{trip}"))
                if found.get("state") == state:
                    return found
                await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """Run the tutorial's application and its services."""
    app, elsewhere = tmp_path_factory.mktemp("app"), tmp_path_factory.mktemp("elsewhere")
    with TripServices(elsewhere) as services:
        async with asyncio.timeout(PATIENCE):
            while not services.printed:
                await asyncio.sleep(0.05)
        follow_tutorial(app, services.printed[0])
        options = PlatformOptions(ports=ANY_PORTS, data=elsewhere / "data", app=app, in_memory_storage=True)
        async with Platform(options) as platform:
            yield Reader(platform, services)


async def test_trip_is_booked(reader: Reader) -> None:
    """It is `Processed`, after the calls that the tutorial shows; hotel and car in any order."""
    [book, look, _], [calls, _] = scene(4)
    await reader.books(book)
    trip = await reader.sees(look.rpartition("/")[2], "Processed")
    assert [step["state"] for step in trip["steps"]] == ["Completed"] * 3
    assert trip["output"].keys() == {"flight", "hotel"}
    called = reader.services.calls_of("lisbon")
    assert (called[0], sorted(called)) == (calls[0], sorted(calls))


async def test_trip_without_a_car_skips_it_and_is_cancelled(reader: Reader) -> None:
    """The car service is never called; later, what was booked is undone."""
    [*_, book], [_, calls] = scene(4)
    await reader.books(book)
    trip = await reader.sees("oslo", "Processed")
    assert [step["state"] for step in trip["steps"]] == ["Completed", "Completed", "Skipped"]
    assert reader.services.calls_of("oslo") == calls
    [cancel, look], [undone] = scene(6)
    await reader.books(cancel)
    await reader.sees(look.rpartition("/")[2], "Compensated")
    assert reader.services.calls_of("oslo") == calls + undone


async def test_everything_is_undone_when_the_car_is_refused(reader: Reader) -> None:
    """Every dispatched step, in reverse order, one at a time: `Compensated`, with the reason."""
    [book, look], [calls] = scene(5)
    await reader.books(book)
    trip = await reader.sees(look.rpartition("/")[2], "Compensated")
    assert trip["last_error"] == "car: car answered 422"
    called = reader.services.calls_of("rome")
    assert _without_hotel(called) == _without_hotel(calls)
    task = json.loads(await reader.types(f"curl {_HOST}/api/ops/tasks/rome"))
    dispatched = [step for step in task["steps"] if step["do"]["number"] is not None]
    dispatched.sort(key=lambda step: int(step["do"]["number"]))
    undone = [line.split("/")[1] for line in called if line.startswith("DELETE")]
    assert undone == [f"{step['name']}s" for step in reversed(dispatched)]


def _without_hotel(calls: list[str]) -> list[str]:
    """Omit the step that may run before or after the refusal."""
    return [line for line in calls if "/hotels/" not in line]
