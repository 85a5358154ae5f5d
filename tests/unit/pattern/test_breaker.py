"""The rules of a breaker, without any breaker."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.breaker import (
    BreakerPolicy,
    BreakerState,
    Verdict,
    after_failure,
    after_success,
    as_probe,
    new_record,
)
from tests.fakes.clock import START
from tests.fakes.tasks import after

POLICY = BreakerPolicy(failures=3, open_for=timedelta(seconds=10))
NEW = new_record("drone", START)
OPEN = after_failure(replace(NEW, failures=2), "drone answered 503", after(1), POLICY)
PROBED = as_probe(OPEN, after(11), POLICY)


def test_service_is_called_until_it_failed_too_often_in_a_row() -> None:
    """The last of them opens the breaker."""
    record = NEW
    for failures in (1, 2):
        record = after_failure(record, "drone answered 503", after(1), POLICY)
        assert (record.state, record.failures) == (BreakerState.CLOSED, failures)
        assert record.verdict(after(1), timedelta(), POLICY) is Verdict.CALL
    assert after_failure(record, "drone answered 503", after(1), POLICY) == OPEN
    assert (OPEN.state, OPEN.since, OPEN.failures) == (BreakerState.OPEN, after(1), 3)
    assert OPEN.last_error == "drone answered 503"


def test_success_between_makes_failures_count_from_the_start() -> None:
    """In a row, they are."""
    record = after_success(replace(NEW, failures=2), after(1))
    assert after_failure(record, "", after(1), POLICY).state is BreakerState.CLOSED


def test_success_after_success_changes_nothing() -> None:
    """What happens at each call costs nothing."""
    assert after_success(NEW, after(5)) is NEW


def test_open_breaker_leaves_the_service_alone_for_its_time() -> None:
    """Then it is time for a probe."""
    assert OPEN.verdict(after(10.999), timedelta(), POLICY) is Verdict.FAIL_FAST
    assert OPEN.verdict(after(11), timedelta(), POLICY) is Verdict.PROBE


def test_probe_keeps_others_away_for_as_long_a_time() -> None:
    """A prober that died has lost its right then."""
    assert PROBED.state is BreakerState.HALF_OPEN
    assert PROBED.verdict(after(20.999), timedelta(), POLICY) is Verdict.FAIL_FAST
    assert PROBED.verdict(after(21), timedelta(), POLICY) is Verdict.PROBE


def test_host_whose_clock_is_far_ahead_does_not_keep_a_circuit_open() -> None:
    """By another's clock it would last for as long as that one was ahead (seed 8812)."""
    for minutes_ahead in (OPEN, PROBED):
        assert minutes_ahead.verdict(after(-300), timedelta(seconds=9.9), POLICY) is Verdict.FAIL_FAST
        assert minutes_ahead.verdict(after(-300), POLICY.open_for, POLICY) is Verdict.PROBE


def test_failed_probe_opens_for_another_interval() -> None:
    """The service has been failing since the first time, and more often now."""
    again = after_failure(PROBED, "drone answered 500", after(12), POLICY)
    assert (again.state, again.since, again.failures) == (BreakerState.OPEN, after(1), 4)
    assert (again.probe_at, again.last_error) == (after(22), "drone answered 500")


def test_probe_that_succeeds_closes() -> None:
    """The last error stays to be seen."""
    closed = after_success(PROBED, after(12))
    assert (closed.state, closed.since, closed.failures) == (BreakerState.CLOSED, after(12), 0)
    assert (closed.probe_at, closed.last_error) == (None, "drone answered 503")


def test_long_error_is_cut() -> None:
    """It must fit into a row."""
    for script in ("x", "語", "😀"):
        error = after_failure(NEW, script * 100_000, START, POLICY).last_error
        assert error is not None
        assert 490 < len(error.encode()) <= 500


@given(st.lists(st.sampled_from(["success", "failure", "probe"]), max_size=30), st.integers(1, 5))
def test_service_is_left_alone_exactly_while_the_breaker_is_not_closed(
    events: list[str], failures: int
) -> None:
    """Whatever happens, in whatever order, there is a time at which the service is tried again."""
    policy = replace(POLICY, failures=failures)
    record = NEW
    for second, event in enumerate(events):
        now = after(second)
        if event == "success":
            record = after_success(record, now)
        elif event == "failure":
            record = after_failure(record, "", now, policy)
        elif record.verdict(now, timedelta(), policy) is Verdict.PROBE:
            record = as_probe(record, now, policy)
        closed = record.state is BreakerState.CLOSED
        may_call = record.verdict(now, timedelta(), policy) is Verdict.CALL
        assert closed is (record.probe_at is None) is may_call
        assert record.verdict(now + policy.open_for, timedelta(), policy) is not Verdict.FAIL_FAST
        assert not closed or record.failures < failures
