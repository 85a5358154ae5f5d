"""What instances share: how they agree on one row, what it costs, and what they do without it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import groupby

import pytest

from functions.agents import shared_record as breaker_module
from functions.pattern.breaker import BreakerState
from functions.pattern.errors import TransientError
from tests.unit.agents.breaker.instances import FAILURES, OPEN_FOR, Instances, cut_short

AWAY = TransientError("Table Storage: ServiceRequestError")


async def test_thousand_calls_in_a_second_cost_one_read(instances: Instances) -> None:
    """At once and one after the other."""
    breaker = instances.start()
    await instances.call(*[breaker] * 500)
    instances.clock.advance(0.999)
    await instances.call_in_turn(breaker, 500)
    assert (instances.drones.calls, instances.rows.reads) == (1_000, 1)


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
async def test_traffic_costs_one_read_a_second(instances: Instances, *, is_open: bool) -> None:
    """Whether the circuit is closed or open."""
    breaker = await instances.open_breaker() if is_open else instances.start()
    for _ in range(5):
        instances.clock.advance(1)
        await instances.call(*[breaker] * 20)
    assert instances.rows.reads == 5 + is_open


async def test_each_instance_counts_its_own_failures(instances: Instances) -> None:
    """Two failures each do not open the breaker; the third of one does, and the other one learns of it."""
    one, two = instances.start(), instances.start()
    instances.drones.fault = TransientError("drone answered 503")
    for _ in range(2):
        assert await instances.call(one, two) == ["failed"] * 2
        instances.clock.advance(1)
    assert instances.rows.written == []
    assert await instances.call(one) == ["failed"]
    assert await instances.call(two) == ["circuit open"]


async def test_slower_of_two_adopts_what_is_there(instances: Instances) -> None:
    """Both find the service failing; the later one's own view would have been another."""
    one, two = instances.start(), instances.start()
    assert await instances.call(two) == ["delivered"]
    await instances.open_breaker(one)
    instances.clock.advance(0.9)
    assert await instances.call_in_turn(two) == ["failed"] * 3
    assert len(instances.rows.written) == 1
    instances.clock.advance(OPEN_FOR - 0.9)
    instances.drones.fault = None
    assert await instances.call(two) == ["delivered"]


async def test_failures_of_before_are_forgotten_when_another_instance_closed(instances: Instances) -> None:
    """The service was seen well meanwhile."""
    one, two = instances.start(), instances.start()
    instances.drones.fault = TransientError("drone answered 503")
    assert await instances.call_in_turn(two, 2) == ["failed"] * 2
    await instances.open_breaker(one)
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    assert await instances.call(one) == ["delivered"]
    instances.drones.fault = TransientError("drone answered 503")
    assert await instances.call_in_turn(two, 4) == ["failed"] * 3 + ["circuit open"]


async def test_row_that_was_deleted_closes(instances: Instances) -> None:
    """An operator who deletes it lets the service be called at once."""
    breaker = await instances.open_breaker()
    instances.rows.there.clear()
    instances.drones.fault = None
    instances.clock.advance(1)
    assert await instances.call(breaker) == ["delivered"]


async def test_store_that_is_away_makes_no_call_fail(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    """Each instance has a breaker of its own meanwhile; the outage is logged once."""
    instances.rows.failure = AWAY
    breaker = instances.start()
    assert await instances.call(breaker) == ["delivered"]
    await instances.open_breaker(breaker)
    assert await instances.call(breaker) == ["circuit open"]
    instances.clock.advance(OPEN_FOR)
    assert sorted(await instances.call(breaker, breaker)) == ["circuit open", "failed"]
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    assert await instances.call_in_turn(breaker, 2) == ["delivered"] * 2
    assert caplog.text.count("not shared, the state store fails (Table Storage: ServiceRequestError)") == 1


async def test_store_that_comes_back_is_told(instances: Instances) -> None:
    """At the next call in a second, though the breaker did not change since."""
    instances.rows.failure = AWAY
    breaker = await instances.open_breaker()
    instances.rows.failure = None
    instances.clock.advance(1)
    assert await instances.call(breaker) == ["circuit open"]
    assert await instances.call(instances.start()) == ["circuit open"]
    instances.rows.failure = AWAY
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    await instances.call(breaker)
    instances.rows.failure = None
    instances.clock.advance(1)
    assert await instances.call(breaker) == ["delivered"]
    assert await instances.call(instances.start()) == ["delivered"]
    states = [state for state, _ in groupby(record.state for record in instances.rows.written)]
    assert states == [BreakerState.OPEN, BreakerState.CLOSED]


async def test_store_that_does_not_answer_is_not_waited_for(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call loses little time to it, and only one call at a time does."""
    monkeypatch.setattr(breaker_module, "_STORE_SECONDS", 0.05)
    breaker = instances.start()
    await instances.call(breaker)
    instances.rows.silent = True
    async with asyncio.timeout(60):
        for _ in range(FAILURES):
            instances.clock.advance(1)
            assert await instances.call(*[breaker] * 3) == ["delivered"] * 3
        await instances.open_breaker(breaker)
        assert await instances.call(breaker) == ["circuit open"]
    assert instances.rows.reads == 1 + FAILURES


async def test_others_do_not_wait_while_one_reads(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on with what is known."""
    monkeypatch.setattr(breaker_module, "_STORE_SECONDS", 60)
    breaker = instances.start()
    await instances.call(breaker)
    instances.rows.silent = True
    instances.clock.advance(1)
    reading = asyncio.create_task(instances.call(breaker))
    async with asyncio.timeout(60):
        while instances.rows.reads < 2:
            await asyncio.sleep(0)
        assert await instances.call(breaker) == ["delivered"]
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_call_that_is_cut_while_it_waits_for_the_store_is_no_failure(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service has nothing to do with it."""
    monkeypatch.setattr(breaker_module, "_STORE_SECONDS", 60)
    breaker = instances.start()
    instances.rows.silent = True
    for _ in range(FAILURES):
        with pytest.raises(TimeoutError):
            await cut_short(instances.call(breaker), lambda: instances.rows.reads)
    instances.rows.silent = False
    assert await instances.call(breaker) == ["delivered"]


async def test_clock_that_is_put_back_does_not_stop_the_reading(instances: Instances) -> None:
    """Machines correct their time."""
    breaker = instances.start()
    await instances.call(breaker)
    instances.clock.advance(-3600)
    await instances.call(breaker)
    assert instances.rows.reads == 2


async def test_shares_that_change_make_no_failure_forgotten(instances: Instances) -> None:
    """They are on the same row, and change every few seconds."""
    breaker, other = instances.start(at_once=10), instances.start(at_once=10)
    assert await instances.call(other, breaker) == ["delivered"] * 2
    instances.drones.fault = TransientError("drone answered 503")
    for _ in range(FAILURES):
        instances.clock.advance(4)
        assert await other.places.take() is not None  # writes the row
        assert await instances.call(breaker) == ["failed"]
    assert await instances.call(breaker) == ["circuit open"]


async def test_circuit_that_opens_while_shares_change_is_not_lost(instances: Instances) -> None:
    """It is written on top of them, and they stay."""
    breaker, other = instances.start(at_once=10), instances.start(at_once=10)
    assert await instances.call(other, breaker) == ["delivered"] * 2
    instances.drones.fault = TransientError("drone answered 503")
    assert await instances.call_in_turn(breaker, FAILURES - 1) == ["failed"] * (FAILURES - 1)
    there = instances.rows.there["drone"]
    shares = tuple(replace(share, wanted=77) for share in there.record.shares)
    await instances.rows.swap(replace(there.record, shares=shares), there.version)
    assert await instances.call(breaker) == ["failed"]
    record = instances.rows.there["drone"].record
    assert (record.state, {share.wanted for share in record.shares}) == (BreakerState.OPEN, {77})
    instances.clock.advance(1)
    assert await instances.call(other) == ["circuit open"]


async def test_circuit_that_was_never_open_stays_closed_when_shares_make_its_row(
    instances: Instances,
) -> None:
    """What was counted before stays counted."""
    breaker, other = instances.start(), instances.start(at_once=10)
    instances.drones.fault = TransientError("drone answered 503")
    assert await instances.call_in_turn(breaker, FAILURES - 1) == ["failed"] * (FAILURES - 1)
    assert await other.places.take() is not None
    instances.clock.advance(1)
    assert await instances.call_in_turn(breaker, 2) == ["failed", "circuit open"]


async def test_calls_beyond_the_limit_wait_while_the_store_is_away(instances: Instances) -> None:
    """A limit that is set holds, whatever happens; a lease that can't be renewed ends."""
    breaker = instances.start(at_once=1)
    assert await instances.call(breaker) == ["delivered"]
    instances.rows.failure = AWAY
    instances.clock.advance(60)
    assert await breaker.places.take(0.2) is None
    instances.rows.failure = None
    async with asyncio.timeout(10):
        assert await breaker.places.take() is not None
