"""One service, several instances: when it is called, and by whom."""

from __future__ import annotations

import asyncio

import pytest

from functions.agents.breaker import CircuitOpenError
from functions.pattern.breaker import BreakerState
from functions.pattern.errors import PermanentError, TransientError
from tests.unit.agents.breaker.instances import FAILURES, OPEN_FOR, Instances, cut_short


async def test_service_that_answers_is_called(instances: Instances) -> None:
    """The answer is passed on, and nothing is written anywhere."""
    assert await instances.call_in_turn(instances.start(), 5) == ["delivered"] * 5
    assert instances.rows.written == []


async def test_circuit_of_a_service_that_keeps_failing_opens(instances: Instances) -> None:
    """At the third failure in a row; the fourth call does not happen."""
    breaker = instances.start()
    instances.drones.fault = TransientError("drone answered 503")
    assert await instances.call_in_turn(breaker, 4) == ["failed"] * 3 + ["circuit open"]
    assert instances.drones.calls == FAILURES


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


async def test_right_of_the_dead_goes_to_one(instances: Instances) -> None:
    """Of two instances that find it at the same moment."""
    breaker, *others = await instances.open_breaker(), instances.start(), instances.start()
    instances.clock.advance(OPEN_FOR)
    dead, end = await instances.call_held(breaker)
    instances.clock.advance(OPEN_FOR)
    assert sorted(await instances.call(*others)) == ["circuit open", "failed"]
    end.set()
    await dead


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
