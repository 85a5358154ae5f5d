"""A share is used only as far, and for as long, as nobody else can have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from functions.pattern.shares import Share
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import seeded
from tests.fakes.virtual_time import VirtualClock, in_virtual_time
from tests.unit.agents.places.fleet import SKEW, CountingService, FaultyRows, Instance

_LIMIT = 10


def test_share_that_may_have_been_given_back_is_not_used() -> None:
    """The answer to the write was lost: it counts as done, until another write shows what is there."""

    async def scenario() -> None:
        rows, service = MemoryBreakerRows(), CountingService(seeded(1), (1, 1))
        one, two = Instance(rows, service, tasks=0), Instance(rows, service, tasks=0)
        first = await one.breaker.places.take()
        holder = _shares(rows)[0].holder
        wanting = [asyncio.create_task(two.breaker.places.take()) for _ in range(_LIMIT)]
        await _until(lambda: _places(rows, holder) == _LIMIT and len(_shares(rows)) == 2)
        one.line.loses_answers = True  # it gives back what the other lacks, and hears of nothing
        await _until(lambda: _places(rows, holder) < _LIMIT)
        one.line.loses_writes = True
        for each in wanting:
            each.cancel()
        await _until(lambda: len(_shares(rows)) == 1)  # now it could have all again, if it could write
        await asyncio.sleep(2)
        taken = [first, *(one.breaker.places.take_now() for _ in range(_LIMIT))]
        assert sum(place is not None for place in taken) <= _places(rows, holder) < _LIMIT
        one.line.loses_answers = one.line.loses_writes = False
        await _until(lambda: _places(rows, holder) == _LIMIT)
        assert one.breaker.places.take_now() is not None

    in_virtual_time(scenario())


def test_instance_that_loses_the_store_stops_before_its_share_lapses() -> None:
    """Its last call has ended when another has its places, though clocks differ."""

    async def scenario() -> None:
        random = seeded(2)
        service, rows = CountingService(random, (8, 9.5)), FaultyRows(random, faults=0)
        behind = Instance(rows, service, offset=-SKEW)
        Instance(rows, service)
        await asyncio.sleep(20)
        behind.line.is_cut = True
        done = behind.done
        await asyncio.sleep(60)
        assert service.most == _LIMIT
        assert behind.done <= done + 3 * _LIMIT
        assert service.in_flight == _LIMIT

    in_virtual_time(scenario())


def test_lease_is_made_for_a_long_call_before_it_begins() -> None:
    """One that is sent once may last until complete-by."""

    async def scenario() -> None:
        rows, service = MemoryBreakerRows(), CountingService(seeded(3), (1, 1))
        instance, ends_at = Instance(rows, service, tasks=0), VirtualClock().now() + timedelta(minutes=5)
        seen = list[bool]()

        async def attempt() -> None:
            seen.append(_shares(rows)[0].until >= ends_at + timedelta(seconds=SKEW))

        await instance.breaker.call(attempt)
        await instance.breaker.call(attempt, lambda _: ends_at)
        assert seen == [False, True]

    in_virtual_time(scenario())


def test_place_is_handed_to_the_next_at_once_and_lost_by_no_cancellation() -> None:
    """Whoever waits for it gives up at the moment at which it is given."""

    async def scenario() -> None:
        instance = Instance(MemoryBreakerRows(), CountingService(seeded(4), (1, 1)), tasks=0, at_once=1)
        places = instance.breaker.places
        first = await places.take()
        assert first is not None
        impatient = asyncio.create_task(places.take())
        patient = asyncio.create_task(places.take())
        await asyncio.sleep(0)
        first.release()
        impatient.cancel()
        assert await patient is not None

    in_virtual_time(scenario())


def test_steps_that_call_twice_at_once_do_not_wait_for_each_other_for_ever() -> None:
    """Each holds its place until it is done: if a second call took another, both would wait in vain."""

    async def scenario() -> None:
        service = CountingService(seeded(5), (4, 4))
        instance = Instance(MemoryBreakerRows(), service, tasks=0, at_once=2)

        async def step() -> None:
            place = await instance.breaker.places.take()
            assert place is not None
            with place.given():
                await asyncio.gather(*(instance.breaker.call(service.call) for _ in range(2)))

        async with asyncio.timeout(60):
            await asyncio.gather(step(), step())
        assert (service.calls, service.most) == (4, 2)

    in_virtual_time(scenario())


def test_instance_without_a_limit_leaves_the_shares_of_others() -> None:
    """While a limit is being deployed, others have none; after an outage, they have a ramp."""

    async def scenario() -> None:
        rows, service = MemoryBreakerRows(), CountingService(seeded(6), (1, 1))
        limited = Instance(rows, service, tasks=0, at_once=1)
        assert await limited.breaker.places.take() is not None
        [share], stored = _shares(rows), rows.there["drone"]
        long_ago = stored.record.since - timedelta(hours=1)
        ramp = replace(stored.record, since=long_ago, ramp=1, ramp_at=long_ago)
        await rows.swap(ramp, stored.version)
        limited.line.is_cut = True  # it would claim its share again, but not at once
        free = Instance(rows, service, tasks=0, at_once=None)
        await free.breaker.call(service.call)
        assert rows.there["drone"].record.ramp is None
        assert [each.holder for each in _shares(rows)] == [share.holder]
        another = Instance(rows, service, tasks=0, at_once=1)
        assert await another.breaker.places.take(3) is None

    in_virtual_time(scenario())


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def _shares(rows: MemoryBreakerRows) -> list[Share]:
    return list(rows.there["drone"].record.shares) if rows.there else []


def _places(rows: MemoryBreakerRows, holder: str) -> int:
    return next(share.places for share in _shares(rows) if share.holder == holder)
