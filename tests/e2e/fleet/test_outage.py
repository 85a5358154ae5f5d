"""A service that is down for a crowd of tasks: one alert, no failures, and its calls return gradually."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.fleet.bench import running, submit
from tests.e2e.fleet.counting import CountingServices
from tests.e2e.recovery.bench import Bench, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

_TASKS = [f"delivery-{number}" for number in range(40)]
#: Seconds for which the circuit stays open: three times as long as an interval of the ramp.
_OPEN = 3.0
_CROWD = 10
_SETTINGS = {
    "BREAKER_FAILURES": "3",
    "BREAKER_OPEN_SECONDS": f"{_OPEN}",
    "PICK_UP_SECONDS": "60",
    "CROWD_TASKS": f"{_CROWD}",
    "EXTENDED_WAITS": "1,2",
}


async def test_tasks_behind_an_open_circuit_are_one_alert_and_come_back_gradually(tmp_path: Path) -> None:
    """Recoveries of the many do not count; no more than 1, 2, 4 and so on are in flight, by the ramp."""
    services = CountingServices("drone", 0.2)
    services.down.add("drone")
    async with running(tmp_path, _SETTINGS, services=services) as bench:
        await asyncio.gather(*(submit(bench, task) for task in _TASKS))
        await until(lambda: bool(_crowds(bench)))
        services.down.clear()
        ends = [await bench.until_state(task, "Processed") for task in _TASKS]
    first = min(each.ended for each in services.spans.ended)
    assert services.spans.beyond(first, lambda after: 2 ** (after // (_OPEN / 3))) == []
    assert sum(task["failure_count"] > 0 for task in ends) < _CROWD, "the first may be late by themselves"
    assert _crowds(bench) == [("Agent drone", "circuit open")]
    assert bench.remote.alerts_about(_TASKS[0]) == []


def _crowds(bench: Bench) -> list[tuple[str, str]]:
    alerts = bench.remote.alerts
    return [(each["behind"], each["cause"]) for each in alerts if each["event"] == "tasks late together"]
