"""Three instances and one limit: never more calls in flight, and hardly fewer while work waits."""

from __future__ import annotations

import asyncio
import math
from random import Random

import pytest

from tests.fakes.chance import seeded
from tests.fakes.virtual_time import VirtualClock, in_virtual_time
from tests.unit.agents.places.fleet import SKEW, CountingService, FaultyRows, Instance

LIMIT = 10
#: By then every instance has its share.
STARTED = 5
#: A lease lasts as long as the longest call, the skew and two renewals; the time to notice its end is more.
LEASE = 10 + SKEW + 6 + 3


@pytest.mark.parametrize("seed", range(4))
def test_limit_holds_and_is_used_whatever_happens(seed: int) -> None:
    """Clocks differ, the store's answers are lost, writes come late; a host is killed, and another starts."""

    async def scenario() -> None:
        random = seeded(seed)
        service, rows = CountingService(random, (0.1, 2)), FaultyRows(random, faults=0.05)
        offsets = (0, SKEW / 2, -SKEW / 2)
        one, two, three = (Instance(rows, service, offset=offset) for offset in offsets)
        await asyncio.sleep(30)
        _assert_used(service, STARTED, 30)
        await two.kill()
        await asyncio.sleep(LEASE)
        Instance(rows, service, offset=offsets[1])
        await asyncio.sleep(30)
        end = int(30 + LEASE + 30)
        _assert_used(service, int(30 + LEASE + STARTED), end)
        assert service.most <= LIMIT
        assert one.done > 0
        assert three.done > 0

    in_virtual_time(scenario())


def test_each_instance_gets_its_part() -> None:
    """None that has work waits for others to be done."""

    async def scenario() -> None:
        random = seeded(1)
        service, rows = CountingService(random, (0.1, 2)), FaultyRows(random, faults=0)
        first = Instance(rows, service)
        await asyncio.sleep(10)
        others = [Instance(rows, service), Instance(rows, service)]
        await asyncio.sleep(5)
        before = first.done
        for other in others:
            other.done = 0
        await asyncio.sleep(60)
        done = [first.done - before, *(other.done for other in others)]
        assert min(done) > 0.7 * sum(done) / 3

    in_virtual_time(scenario())


def test_what_one_does_not_need_the_others_get() -> None:
    """Within seconds, and also when many instances share few places."""

    async def scenario() -> None:
        random = seeded(2)
        service, rows = CountingService(random, (0.1, 2)), FaultyRows(random, faults=0)
        busy, *others = (Instance(rows, service, tasks=40) for _ in range(3))
        await asyncio.sleep(20)
        for other in others:
            await other.rest()
        alone = math.ceil(asyncio.get_running_loop().time())
        await asyncio.sleep(20)
        _assert_used(service, alone + STARTED, alone + 20)
        assert service.most <= LIMIT
        assert busy.done > 0

    in_virtual_time(scenario())


def test_more_instances_than_places_pass_no_limit() -> None:
    """As many as Azure may bring up."""

    async def scenario() -> None:
        random = seeded(3)
        service, rows = CountingService(random, (0.1, 2)), FaultyRows(random, faults=0.02)
        for _ in range(40):
            Instance(rows, service, tasks=5)
        await asyncio.sleep(40)
        assert service.most <= LIMIT
        _assert_used(service, 10, 40)

    in_virtual_time(scenario())


def test_places_are_used_by_tasks_that_try_at_any_of_many_instances() -> None:
    """A few of them have all places, and a task that found none tries at another the next time."""

    async def scenario() -> None:
        random = seeded(4)
        service, rows = CountingService(random, (0.5, 1)), FaultyRows(random, faults=0)
        fleet = [Instance(rows, service, tasks=0) for _ in range(40)]
        visits = [asyncio.create_task(_visit(fleet, service, random)) for _ in range(1_000)]
        await asyncio.sleep(60)
        for visit in visits:
            visit.cancel()
        assert service.most <= LIMIT
        assert sum(service.busy[second] for second in range(20, 58)) / 38 >= 0.7 * LIMIT

    in_virtual_time(scenario())


async def _visit(fleet: list[Instance], service: CountingService, random: Random) -> None:
    """Have one call made, wherever there is a place."""
    breaker = random.choice(fleet).breaker
    while (place := await breaker.places.take(1)) is None:
        await asyncio.sleep((breaker.places.next_turn() - VirtualClock().now()).total_seconds())
        breaker = random.choice(fleet).breaker
    with place.given():
        await breaker.call(service.call)


def _assert_used(service: CountingService, since: int, until: int) -> None:
    """Check that at least 8 of 10 places were in use, on average of each second."""
    used = {second: round(service.busy[second], 1) for second in range(since, until - 2)}
    assert min(used.values()) >= 0.8 * LIMIT, used
