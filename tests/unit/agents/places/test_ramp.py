"""A service that is back after an outage is not knocked over: calls return gradually, from all instances."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.chance import seeded
from tests.fakes.virtual_time import in_virtual_time
from tests.unit.agents.places.fleet import POLICY, CountingService, FaultyRows, Instance

_INTERVAL = POLICY.ramp_interval.total_seconds()
_TASKS = 30


@pytest.mark.parametrize("at_once", [None, 10])
@pytest.mark.parametrize("seed", range(2))
def test_calls_return_one_two_four_at_a_time(seed: int, at_once: int | None) -> None:
    """Whether they are limited otherwise or not; in the end all of them are back."""

    async def scenario() -> None:
        random = seeded(seed)
        service, rows = CountingService(random, (0.1, 1)), FaultyRows(random, faults=0)
        instances = [Instance(rows, service, tasks=_TASKS, at_once=at_once) for _ in range(3)]
        await asyncio.sleep(5)
        service.is_down = True
        await asyncio.sleep(40)
        service.is_down = False
        back = await _until_back(instances)
        await asyncio.sleep(12 * _INTERVAL)
        for second in range(int(back) + 1, int(back + 8 * _INTERVAL)):
            allowed = 2 ** int((second + 1 - back) // _INTERVAL)
            assert service.most_by_second[second] <= allowed, (second - back, allowed)
        last = range(int(back + 11 * _INTERVAL), int(back + 12 * _INTERVAL) - 2)
        expected = 0.8 * at_once if at_once else 0.5 * 3 * _TASKS
        assert min(service.busy[second] for second in last) > expected

    in_virtual_time(scenario())


async def _until_back(instances: list[Instance]) -> float:
    while all(instance.breaker.state != "closed" for instance in instances):
        await asyncio.sleep(0.01)
    return asyncio.get_running_loop().time()
