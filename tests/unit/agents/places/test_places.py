"""Calls of a limited service: no limit is exceeded over all instances, and its slots are used."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from functions.agents.breaker import CircuitOpenError
from functions.agents.shared_record import Watch
from functions.pattern.breaker import new_record
from functions.pattern.errors import TransientError
from functions.pattern.ramp import grown
from functions.pattern.shares import Share
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import seeded
from tests.fakes.clock import START
from tests.fakes.virtual_time import VirtualClock
from tests.unit.agents.places.fleet import POLICY, SKEW, CountingService, FaultyRows, Instance

LIMIT = 10
#: By then every instance has its share.
STARTED = 5
#: A lease lasts as long as the longest call, the skew and two renewals; the time to notice its end is more.
LEASE = 10 + SKEW + 6 + 3


@pytest.mark.parametrize("seed", range(4))
async def test_limit_holds_and_is_used_whatever_happens(seed: int) -> None:
    """Clocks differ, the store's answers are lost, writes come late; a host is killed, and another starts."""
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


async def test_what_one_does_not_need_the_others_get() -> None:
    """Within seconds, and also when many instances share few places."""
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


async def test_places_are_used_by_tasks_that_try_at_any_of_many_instances() -> None:
    """A few of them have all places, and a task that found none tries at another the next time."""
    random = seeded(4)
    service, rows = CountingService(random, (0.5, 1)), FaultyRows(random, faults=0)
    fleet = [Instance(rows, service, tasks=0) for _ in range(40)]
    visits = [asyncio.create_task(_visit(fleet, service, random)) for _ in range(1_000)]
    await asyncio.sleep(60)
    for visit in visits:
        visit.cancel()
    assert service.most <= LIMIT
    assert sum(service.busy[second] for second in range(20, 58)) / 38 >= 0.7 * LIMIT


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


async def test_share_that_may_have_been_given_back_is_not_used() -> None:
    """The answer to the write was lost: it counts as done, until another write shows what is there."""
    rows, service = MemoryBreakerRows(), CountingService(seeded(1), (1, 1))
    one, two = Instance(rows, service, tasks=0), Instance(rows, service, tasks=0)
    first = await one.breaker.places.take()
    holder = _shares(rows)[0].holder
    wanting = [asyncio.create_task(two.breaker.places.take()) for _ in range(LIMIT)]
    await _until(lambda: _places(rows, holder) == LIMIT and len(_shares(rows)) == 2)
    one.line.loses_answers = True  # it gives back what the other lacks, and hears of nothing
    await _until(lambda: _places(rows, holder) < LIMIT)
    one.line.loses_writes = True
    for each in wanting:
        each.cancel()
    await _until(lambda: len(_shares(rows)) == 1)  # now it could have all again, if it could write
    await asyncio.sleep(2)
    taken = [first, *(one.breaker.places.take_now() for _ in range(LIMIT))]
    assert sum(place is not None for place in taken) <= _places(rows, holder) < LIMIT
    one.line.loses_answers = one.line.loses_writes = False
    await _until(lambda: _places(rows, holder) == LIMIT)
    assert one.breaker.places.take_now() is not None


async def test_instance_that_loses_the_store_stops_before_its_share_lapses() -> None:
    """Its last call has ended when another has its places, though clocks differ."""
    random = seeded(2)
    service, rows = CountingService(random, (8, 9.5)), FaultyRows(random, faults=0)
    behind = Instance(rows, service, offset=-SKEW)
    Instance(rows, service)
    await asyncio.sleep(20)
    behind.line.is_cut = True
    done = behind.done
    await asyncio.sleep(60)
    assert service.most == LIMIT
    assert behind.done <= done + 3 * LIMIT
    assert service.in_flight == LIMIT


async def test_lease_is_made_for_a_long_call_before_it_begins() -> None:
    """One that is sent once may last until complete-by."""
    rows, service = MemoryBreakerRows(), CountingService(seeded(3), (1, 1))
    instance, ends_at = Instance(rows, service, tasks=0), VirtualClock().now() + timedelta(minutes=5)
    seen = list[bool]()

    async def attempt() -> None:
        seen.append(_shares(rows)[0].until >= ends_at + timedelta(seconds=SKEW))

    await instance.breaker.call(attempt)
    await instance.breaker.call(attempt, lambda _: ends_at)
    assert seen == [False, True]


async def test_place_is_handed_to_the_next_at_once_and_lost_by_no_cancellation() -> None:
    """Whoever waits for it gives up at the moment at which it is given."""
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


async def test_steps_that_call_twice_at_once_do_not_wait_for_each_other_for_ever() -> None:
    """Each holds its place until it is done: if a second call took another, both would wait in vain."""
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


async def test_instance_without_a_limit_leaves_the_shares_of_others() -> None:
    """While a limit is being deployed, others have none; after an outage, they have a ramp."""
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


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def _shares(rows: MemoryBreakerRows) -> list[Share]:
    return list(rows.there["drone"].record.shares) if rows.there else []


def _places(rows: MemoryBreakerRows, holder: str) -> int:
    return next(share.places for share in _shares(rows) if share.holder == holder)


async def _steps(instance: Instance, service: CountingService) -> None:
    """Do steps with much time, whose calls are each cut off after ten seconds."""
    while True:
        place = await instance.breaker.places.take()
        assert place is not None
        with place.given():
            async with asyncio.timeout(90):
                await instance.breaker.call(service.call)


async def _fail() -> None:
    raise TransientError("503")


@pytest.mark.parametrize("all_lose_it", [True, False])
async def test_calls_that_wait_for_a_lapsed_lease_pass_no_limit(*, all_lose_it: bool) -> None:
    """The store is away for longer than a lease lasts; others have their places when it is back."""
    random = seeded(1)
    service, rows = CountingService(random, (8, 9.5)), FaultyRows(random, faults=0)
    instances = [Instance(rows, service, tasks=0) for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        steps = [group.create_task(_steps(each, service)) for each in instances for _ in range(LIMIT)]
        await asyncio.sleep(20)
        for each in instances if all_lose_it else instances[:1]:
            each.line.is_cut = True
        await asyncio.sleep(40)
        for each in instances:
            each.line.is_cut = False
        await asyncio.sleep(20)
        for step in steps:
            step.cancel()
    assert service.most == LIMIT


async def test_call_that_goes_on_after_its_step_keeps_no_place() -> None:
    """A step makes three calls at once; the first fails, and so the step."""
    service = CountingService(seeded(4), (1, 1))
    instance = Instance(MemoryBreakerRows(), service, tasks=0, at_once=1)

    place = await instance.breaker.places.take()
    assert place is not None
    with pytest.raises(TransientError), place.given():
        await asyncio.gather(*(instance.breaker.call(each) for each in (_fail, service.call, service.call)))
    assert await instance.breaker.places.take(30) is not None


async def test_call_that_goes_on_after_its_step_passes_no_limit() -> None:
    """Its host has nothing else to do, but does not give its share back yet, which another host waits for."""
    service = CountingService(seeded(4), (9, 9))
    rows = MemoryBreakerRows()
    one, two = (Instance(rows, service, tasks=0, at_once=1) for _ in range(2))

    place = await one.breaker.places.take()
    assert place is not None
    with pytest.raises(TransientError), place.given():
        await asyncio.gather(one.breaker.call(_fail), one.breaker.call(service.call))
    await asyncio.sleep(1)
    assert service.in_flight == 1
    await two.breaker.call(service.call)
    assert service.most == 1


async def test_call_that_is_cut_off_while_it_waits_is_no_work_any_more() -> None:
    """Its lease has lapsed, and another instance has the one place: the share is given back."""
    service, rows = CountingService(seeded(1), (1, 1)), MemoryBreakerRows()
    one = Instance(rows, service, tasks=0, at_once=1)
    place = await one.breaker.places.take()
    assert place is not None
    one.line.is_cut = True
    await asyncio.sleep(60)
    Instance(rows, service, tasks=3, at_once=1)
    await asyncio.sleep(10)
    with suppress(TimeoutError), place.given():
        async with asyncio.timeout(5):
            await one.breaker.call(service.call)
    one.line.is_cut = False
    await asyncio.sleep(60)
    assert len(rows.there["drone"].record.shares) == 1


async def test_store_that_fails_is_not_asked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits for its lease meanwhile."""
    service = CountingService(seeded(4), (1, 1))
    instance = Instance(MemoryBreakerRows(), service, tasks=0)
    assert await instance.breaker.places.take() is not None
    asked, swap = list[None](), instance.line.swap

    async def counted(*given: Any) -> Any:
        asked.append(None)
        return await swap(*given)

    monkeypatch.setattr(instance.line, "swap", counted)
    instance.line.is_cut = True
    call = instance.breaker.call(service.call, lambda now: now + timedelta(minutes=5))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call, 10)
    assert 10 <= len(asked) <= 60


_INTERVAL = POLICY.ramp_interval.total_seconds()
_TASKS = 30


@pytest.mark.parametrize("at_once", [None, 10])
@pytest.mark.parametrize("seed", range(2))
async def test_calls_return_one_two_four_at_a_time(seed: int, at_once: int | None) -> None:
    """Whether they are limited otherwise or not; in the end all of them are back."""
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


async def _until_back(instances: list[Instance]) -> float:
    while all(instance.breaker.state != "closed" for instance in instances):
        await asyncio.sleep(0.01)
    return asyncio.get_running_loop().time()


_OPEN_FOR = POLICY.open_for.total_seconds()
_OFFSETS = (0, 4, 40, 300, -40, -300)


@pytest.mark.parametrize("offset", _OFFSETS)
async def test_service_that_is_down_is_left_alone(offset: float) -> None:
    """By all hosts together, for most of the time, and not for ever; one of three has a wrong clock."""

    async def keep_calling(host: Instance, service: CountingService) -> None:
        while True:
            with suppress(TransientError):
                await host.breaker.call(service.call)
            await asyncio.sleep(0.5)

    rows, service = MemoryBreakerRows(), CountingService(seeded(1), (0.1, 0.2))
    service.is_down = True
    hosts = [Instance(rows, service, tasks=0, at_once=None, offset=each) for each in (0, 0, offset)]
    calls = [asyncio.create_task(keep_calling(host, service)) for host in hosts for _ in range(10)]
    await asyncio.sleep(20 * _OPEN_FOR)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    first = len(calls)
    assert first + 15 <= service.calls <= first + 2 * 20


@pytest.mark.parametrize("offset", _OFFSETS)
async def test_circuit_that_a_host_opened_which_is_gone_is_probed_in_time(offset: float) -> None:
    """The caller of the first call is told when to try again; it does, once."""
    rows, service = MemoryBreakerRows(), CountingService(seeded(1), (0.1, 0.2))
    service.is_down = True
    gone, other = (Instance(rows, service, tasks=0, at_once=None, offset=each) for each in (offset, 0))
    for _ in range(POLICY.failures):
        with suppress(TransientError):
            await gone.breaker.call(service.call)
    service.is_down, calls = False, service.calls
    async with asyncio.timeout(_OPEN_FOR + 1):
        try:
            await other.breaker.call(service.call)
        except CircuitOpenError as fault:
            await asyncio.sleep(fault.retry_after or 0)
            await other.breaker.call(service.call)
    assert service.calls == calls + 1


@pytest.mark.parametrize("offset", [0, 4, 40, -40])
async def test_ramp_doubles_once_an_interval(offset: float) -> None:
    """Two hosts look in turn; both have work for all, and calls that succeed all the time.

    By a clock that is five minutes ahead, a ramp is over.
    """
    share = Share(holder="a", places=1, wanted=9_999, in_flight=1, until=START + timedelta(hours=1))
    record = replace(new_record("drone", START), ramp=1, ramp_at=START, shares=(share,))
    hosts, intervals = [(0.0, Watch()), (offset, Watch())], 6
    for second in range(int(intervals * _INTERVAL)):
        ahead, watch = hosts[second % 2]
        now = START + timedelta(seconds=second + ahead)
        seen_for = watch.seen_for((record.ramp, record.ramp_at))
        record = grown(record, now, POLICY, at_once=None, succeeded_at=now, seen_for=seen_for)
        await asyncio.sleep(1)
    assert record.ramp is not None
    assert 2 ** (intervals - 2) <= record.ramp <= 2**intervals
