"""A host whose clock is wrong by more than hosts may differ: the others, and the services, bear it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

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
from tests.fakes.virtual_time import in_virtual_time
from tests.unit.agents.places.fleet import POLICY, CountingService, Instance

_OPEN_FOR = POLICY.open_for.total_seconds()
_INTERVAL = POLICY.ramp_interval.total_seconds()
_OFFSETS = (0, 4, 40, 300, -40, -300)


@pytest.mark.parametrize("offset", _OFFSETS)
def test_service_that_is_down_is_left_alone(offset: float) -> None:
    """By all hosts together, for most of the time, and not for ever; one of three has a wrong clock."""

    async def keep_calling(host: Instance, service: CountingService) -> None:
        while True:
            with suppress(TransientError):
                await host.breaker.call(service.call)
            await asyncio.sleep(0.5)

    async def scenario() -> None:
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

    in_virtual_time(scenario())


@pytest.mark.parametrize("offset", _OFFSETS)
def test_circuit_that_a_host_opened_which_is_gone_is_probed_in_time(offset: float) -> None:
    """The caller of the first call is told when to try again; it does, once."""

    async def scenario() -> None:
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

    in_virtual_time(scenario())


@pytest.mark.parametrize("offset", [0, 4, 40, -40])
def test_ramp_doubles_once_an_interval(offset: float) -> None:
    """Two hosts look in turn; both have work for all, and calls that succeed all the time.

    By a clock that is five minutes ahead, a ramp is over.
    """

    async def scenario() -> None:
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

    in_virtual_time(scenario())
