"""Calls and steps that end in another order than usual: at a lapsed lease, and before their own calls."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from functions.pattern.errors import TransientError
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import seeded
from tests.fakes.virtual_time import in_virtual_time
from tests.unit.agents.places.fleet import CountingService, FaultyRows, Instance

_LIMIT = 10


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
def test_calls_that_wait_for_a_lapsed_lease_pass_no_limit(*, all_lose_it: bool) -> None:
    """The store is away for longer than a lease lasts; others have their places when it is back."""

    async def scenario() -> None:
        random = seeded(1)
        service, rows = CountingService(random, (8, 9.5)), FaultyRows(random, faults=0)
        instances = [Instance(rows, service, tasks=0) for _ in range(3)]
        async with asyncio.TaskGroup() as group:
            steps = [group.create_task(_steps(each, service)) for each in instances for _ in range(_LIMIT)]
            await asyncio.sleep(20)
            for each in instances if all_lose_it else instances[:1]:
                each.line.is_cut = True
            await asyncio.sleep(40)
            for each in instances:
                each.line.is_cut = False
            await asyncio.sleep(20)
            for step in steps:
                step.cancel()
        assert service.most == _LIMIT

    in_virtual_time(scenario())


def test_call_that_goes_on_after_its_step_keeps_no_place() -> None:
    """A step makes three calls at once; the first fails, and so the step."""

    async def scenario() -> None:
        service = CountingService(seeded(4), (1, 1))
        instance = Instance(MemoryBreakerRows(), service, tasks=0, at_once=1)

        place = await instance.breaker.places.take()
        assert place is not None
        with pytest.raises(TransientError), place.given():
            await asyncio.gather(
                *(instance.breaker.call(each) for each in (_fail, service.call, service.call))
            )
        assert await instance.breaker.places.take(30) is not None

    in_virtual_time(scenario())


def test_call_that_goes_on_after_its_step_passes_no_limit() -> None:
    """Its host has nothing else to do, but does not give its share back yet, which another host waits for."""

    async def scenario() -> None:
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

    in_virtual_time(scenario())


def test_call_that_is_cut_off_while_it_waits_is_no_work_any_more() -> None:
    """Its lease has lapsed, and another instance has the one place: the share is given back."""

    async def scenario() -> None:
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

    in_virtual_time(scenario())


def test_store_that_fails_is_not_asked_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits for its lease meanwhile."""

    async def scenario() -> None:
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

    in_virtual_time(scenario())
