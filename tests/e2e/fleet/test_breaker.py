"""The circuit of a service that is down opens in all instances, and closes again by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.e2e.fleet.bench import running, submit
from tests.e2e.fleet.second_host import second_host
from tests.e2e.fleet.services import DONE_ONCE
from tests.e2e.recovery.bench import PATIENCE, Bench, events, until
from tests.e2e.recovery.remote import Call

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

_TASKS = [f"delivery-{number}" for number in range(12)]
#: How many half-open intervals the test observes.
_INTERVALS = 2
#: Long enough to record a probe's result in time on a busy machine; otherwise another may follow at once.
_OPEN_FOR = timedelta(seconds=8)
#: By then every instance has read that the circuit is open, and its last call before that has ended: the row
#: is read once a second, with a timeout of one second.
_KNOWN_AFTER = timedelta(seconds=3)
#: The path prefix with which the second host calls the drone service.
_SECOND = "second"
_SETTINGS = {
    "BREAKER_FAILURES": "3",
    "BREAKER_OPEN_SECONDS": f"{_OPEN_FOR.total_seconds()}",
    "SUPERVISOR_THRESHOLD": "100",
    "STEP_SECONDS": "delivery.drone=2",
}


@dataclass(frozen=True, slots=True)
class Hosts:
    """Two instances of the application; the second calls the drone service with its own path prefix."""

    bench: Bench
    second: aiohttp.ClientSession

    def drone_calls(self) -> list[Call]:
        """Return the calls to the drone service by both hosts."""
        return [call for call in self.bench.remote.calls if call.step == "drone"]

    def drone_calls_from(self, time: datetime) -> list[Call]:
        """Return those received at `time` or later."""
        return [call for call in self.drone_calls() if call.at >= time]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hosts]:
    """Run two hosts on one storage and one broker."""
    async with running(tmp_path_factory.mktemp("first"), _SETTINGS) as bench:
        settings = {"DRONE_URL": f"{bench.remote.url}/{_SECOND}/drone"}
        async with second_host(bench, tmp_path_factory.mktemp("second"), settings) as second:
            yield Hosts(bench, second)


async def test_service_that_is_down_is_probed_by_one_instance_at_a_time(hosts: Hosts) -> None:
    """Down, it gets one call per interval from both hosts together; up again, it gets all delayed steps."""
    remote = hosts.bench.remote
    remote.down.add("drone")
    for task in _TASKS:
        await submit(hosts.bench, task)
    opened = await _until_circuit(hosts.bench.session, "open")
    await _assert_probes_only(hosts, datetime.fromisoformat(opened["since"]) + _KNOWN_AFTER)
    assert (await _until_circuit(hosts.second, "open"))["since"] == opened["since"]
    remote.down.clear()
    await asyncio.gather(*(_assert_processed(hosts.bench, task) for task in _TASKS))
    for session in (hosts.bench.session, hosts.second):
        assert (await _until_circuit(session, "closed"))["failures"] == 0
    assert {call.prefix for call in hosts.drone_calls()} == {"", _SECOND}


async def _assert_probes_only(hosts: Hosts, since: datetime) -> None:
    """Check the calls from `since` on: many attempts at the step, few calls, and an interval between them.

    A probe is claimed by a compare-and-swap, and its failure delays the next one for the whole
    interval. So any two calls are at least the interval apart, with no tolerance.
    """
    await until(lambda: bool(hosts.drone_calls_from(since)))
    attempts_before = await _attempts(hosts.bench)
    await until(lambda: len(hosts.drone_calls_from(since)) > _INTERVALS)
    attempts = await _attempts(hosts.bench) - attempts_before
    calls = hosts.drone_calls_from(since)
    assert min(later.at - earlier.at for earlier, later in pairwise(calls)) >= _OPEN_FOR
    assert attempts > 3 * len(calls)


async def _assert_processed(bench: Bench, task: str) -> None:
    """Check that a delivery is completed without an operator, each of its bookings once."""
    found = await bench.until_state(task, "Processed")
    assert set(events(found)) == {"submitted", "recovered"}
    assert sorted(bench.remote.effects(task)) == DONE_ONCE


async def _attempts(bench: Bench) -> int:
    """Count the attempts at the drone step: one per epoch."""
    found = [await bench.look_at(task) for task in _TASKS]
    return sum(task["epoch"] for task in found if task)


async def _until_circuit(session: aiohttp.ClientSession, state: str) -> dict[str, Any]:
    """Poll the overview until the circuit of the drone service is in `state`."""
    async with asyncio.timeout(PATIENCE):
        while (breaker := await _breaker(session)) is None or breaker["state"] != state:
            await asyncio.sleep(0.1)
    return breaker


async def _breaker(session: aiohttp.ClientSession) -> dict[str, Any] | None:
    async with session.get("/api/ops/overview") as answer:
        assert answer.status == 200, await answer.text()
        breakers = (await answer.json())["breakers"]
    return next((each for each in breakers if each["service"] == "drone"), None)
