"""A reader follows the tutorial exactly, and sees the output that it shows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.tutorial.project import TUTORIAL, Cook, cooking, scene

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

_HOST = "http://127.0.0.1:7071"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cook]:
    """Run the tutorial's application and its services."""
    async with cooking(tmp_path_factory.mktemp("tutorial"), {}, [TUTORIAL]) as reader:
        yield reader


async def _books(reader: Cook, command: str) -> None:
    printed = await reader.types(command)
    assert printed.startswith("HTTP/1.1 202 Accepted"), printed


async def _sees(reader: Cook, trip: str, state: str) -> dict[str, Any]:
    """Look at a trip until it is in `state`."""
    return await reader.until(f"curl {_HOST}/api/trips/{trip}", f'"state":"{state}"')


async def test_trip_is_booked(reader: Cook) -> None:
    """It is `Processed`, after the calls that the tutorial shows; hotel and car in any order."""
    [book, look, _], [calls, _] = scene(4)
    await _books(reader, book)
    trip = await _sees(reader, look.rpartition("/")[2], "Processed")
    assert [step["state"] for step in trip["steps"]] == ["Completed"] * 3
    called = reader.services.calls_of("lisbon")
    assert (called[0], sorted(called)) == (calls[0], sorted(calls))


async def test_trip_without_a_car_skips_it_and_is_cancelled(reader: Cook) -> None:
    """The car service is never called; later, what was booked is undone."""
    [*_, book], [_, calls] = scene(4)
    await _books(reader, book)
    trip = await _sees(reader, "oslo", "Processed")
    assert [step["state"] for step in trip["steps"]] == ["Completed", "Completed", "Skipped"]
    assert reader.services.calls_of("oslo") == calls
    [cancel, look], [undone] = scene(6)
    await _books(reader, cancel)
    await _sees(reader, look.rpartition("/")[2], "Compensated")
    assert reader.services.calls_of("oslo") == calls + undone


async def test_everything_is_undone_when_the_car_is_refused(reader: Cook) -> None:
    """Every dispatched step, in reverse order, one at a time: `Compensated`, with the reason."""
    [book, look], [calls] = scene(5)
    await _books(reader, book)
    trip = await _sees(reader, look.rpartition("/")[2], "Compensated")
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
