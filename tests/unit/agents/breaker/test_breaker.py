"""Instances share the circuit of a service: when it opens, who probes, and what an outage changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import groupby

import pytest

from functions.agents import shared_record as breaker_module
from functions.agents.breaker import CircuitOpenError
from functions.pattern.breaker import BreakerState
from functions.pattern.errors import PermanentError, TransientError
from tests.unit.agents.breaker.conftest import FAILURES, OPEN_FOR, Instances, cut_short


async def test_service_that_answers_is_called(instances: Instances) -> None:
    """The answer is passed on, and nothing is written anywhere."""
    assert await instances.call_in_turn(instances.start(), 5) == ["delivered"] * 5
    assert instances.rows.written == []


async def test_success_between_failures_keeps_the_breaker_closed(instances: Instances) -> None:
    """Only failures in a row count."""
    breaker = instances.start()
    for _ in range(3):
        instances.drones.fault = TransientError("drone answered 503")
        assert await instances.call_in_turn(breaker, 2) == ["failed"] * 2
        instances.drones.fault = None
        assert await instances.call(breaker) == ["delivered"]


async def test_caller_is_told_why_and_for_how_long(instances: Instances) -> None:
    """For the log: the service, the time and the last error."""
    breaker = await instances.open_breaker()
    instances.clock.advance(4)
    with pytest.raises(CircuitOpenError) as refusal:
        await breaker.call(instances.drones.attempt)
    told = "drone: circuit open until 10:00:10 UTC, 3 failures in a row (drone answered 503)"
    assert (str(refusal.value), refusal.value.retry_after) == (told, 6)


async def test_new_instance_does_not_call_a_service_that_is_known_to_be_down(instances: Instances) -> None:
    """It reads first, however many of its calls come at once."""
    await instances.open_breaker()
    assert await instances.call(*[instances.start()] * 5) == ["circuit open"] * 5
    assert instances.drones.calls == 0


async def test_other_instances_stop_within_a_second(instances: Instances) -> None:
    """They had called it a moment ago, and it had answered."""
    other = instances.start()
    assert await instances.call(other) == ["delivered"]
    await instances.open_breaker()
    instances.clock.advance(1)
    assert await instances.call(other) == ["circuit open"]


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_one_of_many_calls_is_the_probe(instances: Instances, count: int) -> None:
    """Of as many instances, with three calls each, all at the same moment."""
    await instances.open_breaker()
    instances.clock.advance(OPEN_FOR)
    breakers = [instances.start() for _ in range(count)]
    outcomes = await instances.call(*breakers * 3)
    assert sorted(outcomes) == ["circuit open"] * (3 * count - 1) + ["failed"]
    assert instances.drones.calls == 1


async def test_failed_probe_opens_the_circuit_for_another_interval(instances: Instances) -> None:
    """Everywhere."""
    breaker, other = await instances.open_breaker(), instances.start()
    instances.clock.advance(OPEN_FOR)
    assert await instances.call(breaker) == ["failed"]
    instances.clock.advance(OPEN_FOR - 0.1)
    assert await instances.call(breaker, other) == ["circuit open"] * 2
    instances.clock.advance(0.1)
    assert await instances.call(other) == ["failed"]


async def test_probe_that_succeeds_closes_for_all_within_a_second(instances: Instances) -> None:
    """For the prober's instance at once."""
    breaker, other = await instances.open_breaker(), instances.start()
    instances.drones.fault = None
    instances.clock.advance(OPEN_FOR - 0.5)
    assert await instances.call(other) == ["circuit open"]
    instances.clock.advance(0.5)
    assert await instances.call_in_turn(breaker, 2) == ["delivered"] * 2
    instances.clock.advance(0.5)
    assert await instances.call(other) == ["delivered"]


async def test_refusal_closes(instances: Instances) -> None:
    """A service that refuses an order is there; the refusal is passed on."""
    breaker = await instances.open_breaker()
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = PermanentError("drone answered 409", status=409)
    for _ in range(FAILURES + 1):
        with pytest.raises(PermanentError):
            await breaker.call(instances.drones.attempt)
    instances.drones.fault = None
    assert await instances.call(breaker) == ["delivered"]


async def test_call_that_is_cut_short_has_failed(instances: Instances) -> None:
    """So complete-by ends the calls of a service that hangs; the cut itself is passed on."""
    breaker = instances.start()
    instances.drones.hold()
    for _ in range(FAILURES):
        call = breaker.call(instances.drones.attempt, lambda now: now)  # its time is over at once
        with pytest.raises(TimeoutError):
            await cut_short(call, lambda: instances.drones.calls)
    assert await instances.call(breaker) == ["circuit open"]
    assert instances.rows.written[0].last_error == "no answer by complete-by"


async def test_calls_that_end_with_their_process_open_no_circuit(instances: Instances) -> None:
    """The service had no time to answer them."""
    await asyncio.sleep(1_000)  # the process has run for longer than a call may take
    breaker, other = instances.start(), instances.start()
    calls = [await instances.call_held(breaker) for _ in range(FAILURES)]
    for call, _ in calls:
        call.cancel()
    await asyncio.gather(*(call for call, _ in calls), return_exceptions=True)
    assert await instances.call(breaker) == await instances.call(other) == ["delivered"]


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_success_of_a_probe_closes_though_another_probes_meanwhile(
    instances: Instances, *, is_elsewhere: bool
) -> None:
    """A service whose calls take longer than a probe's time would never be called again."""
    breaker = await instances.open_breaker()
    second = instances.start() if is_elsewhere else breaker
    instances.drones.fault = None
    instances.clock.advance(OPEN_FOR)
    slow, end = await instances.call_held(breaker)
    instances.clock.advance(OPEN_FOR)
    other, end_other = await instances.call_held(second)
    end.set()
    assert await slow == ["delivered"]
    assert breaker.state is BreakerState.CLOSED
    assert instances.rows.there["drone"].record.state is BreakerState.CLOSED
    end_other.set()
    assert await other == ["delivered"]


async def test_defect_of_the_caller_counts_and_is_passed_on(instances: Instances) -> None:
    """Whatever it is, it must not leave a probe without an end."""
    breaker = await instances.open_breaker()
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = KeyError()
    with pytest.raises(KeyError):
        await breaker.call(instances.drones.attempt)
    assert instances.rows.written[-1].state is BreakerState.OPEN
    assert instances.rows.written[-1].last_error == "KeyError"


async def test_prober_that_dies_loses_its_right(instances: Instances) -> None:
    """After one more interval another instance probes; the end of the first probe changes nothing."""
    breaker, other = await instances.open_breaker(), instances.start()
    instances.clock.advance(OPEN_FOR)
    dead, end = await instances.call_held(breaker)
    instances.clock.advance(OPEN_FOR - 0.1)
    assert await instances.call(other, breaker) == ["circuit open"] * 2
    instances.clock.advance(0.1)
    instances.drones.fault = None
    assert await instances.call(other) == ["delivered"]
    instances.clock.advance(1)
    end.set()
    assert await dead == ["failed"]
    assert await instances.call(breaker) == ["delivered"]
    assert await instances.call(other, breaker) == ["delivered"] * 2


async def test_probe_that_was_taken_for_dead_does_not_end_the_next_one(instances: Instances) -> None:
    """It comes back late, and fails; the next probe succeeds."""
    breaker, other = await instances.open_breaker(), instances.start()
    instances.clock.advance(OPEN_FOR)
    late, end_of_late = await instances.call_held(breaker)
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    probe, end_of_probe = await instances.call_held(other)
    assert await instances.call(breaker) == ["circuit open"]
    end_of_late.set()
    assert await late == ["failed"]
    end_of_probe.set()
    assert await probe == ["delivered"]
    instances.clock.advance(1)
    assert await instances.call(breaker, other) == ["delivered"] * 2


async def test_success_from_before_the_breaker_opened_does_not_close_it(instances: Instances) -> None:
    """The failures are newer."""
    breaker = instances.start()
    late, end = await instances.call_held(breaker)
    await instances.open_breaker(breaker)
    end.set()
    assert await late == ["delivered"]
    assert await instances.call(breaker) == ["circuit open"]


async def test_failure_from_before_the_breaker_opened_does_not_end_the_probe(instances: Instances) -> None:
    """The probe alone tells whether the service is back."""
    breaker = instances.start()
    instances.drones.fault = TransientError("drone answered 500")
    late, end_of_late = await instances.call_held(breaker)
    await instances.open_breaker(breaker)
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    probe, end_of_probe = await instances.call_held(breaker)
    end_of_late.set()
    assert await late == ["failed"]
    end_of_probe.set()
    assert await probe == ["delivered"]
    assert await instances.call(breaker) == ["delivered"]


async def test_many_failures_at_once_open_the_breaker_once(instances: Instances) -> None:
    """Those after the third do not lengthen the wait."""
    breaker = instances.start()
    instances.drones.fault = TransientError("drone answered 503")
    held = [await instances.call_held(breaker) for _ in range(10)]
    for call, end in held:
        end.set()
        assert await call == ["failed"]
    [written] = instances.rows.written
    assert (written.state, written.failures) == (BreakerState.OPEN, FAILURES)


async def test_opening_and_closing_are_logged(instances: Instances, caplog: pytest.LogCaptureFixture) -> None:
    """A warning when it opens, and a line when the service is back."""
    with caplog.at_level("INFO"):
        breaker = await instances.open_breaker()
        instances.clock.advance(OPEN_FOR)
        instances.drones.fault = None
        await instances.call(breaker)
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        ("WARNING", "circuit of drone: open for 10 s, 3 failures in a row (drone answered 503)"),
        ("INFO", "circuit of drone: closed, the service is back"),
    ]


AWAY = TransientError("Table Storage: ServiceRequestError")


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
