"""After an outage, calls return gradually: the ramp grows while it is used, narrows at failures, and ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.breaker import BreakerPolicy, BreakerRecord, after_failure, after_success, new_record
from functions.pattern.ramp import grown, is_reached, limit_of, set_back
from functions.pattern.shares import Share
from tests.fakes.clock import START
from tests.fakes.tasks import after

#: An interval is five seconds.
POLICY = BreakerPolicy(failures=1, open_for=timedelta(seconds=15))
_NEVER = -1_000
BACK = after_success(after_failure(new_record("drone", START), "down", START, POLICY), START)


def _with_demand(record: BreakerRecord, wanted: int, *, until: float = 10_000) -> BreakerRecord:
    share = Share(holder="one", places=1, wanted=wanted, in_flight=1, until=after(until))
    return replace(record, shares=(share,))


def _grown(
    record: BreakerRecord,
    seconds: float,
    *,
    at_once: int | None = None,
    succeeded: float | None = None,
    seen: float | None = None,
) -> BreakerRecord:
    """Let an instance look that has seen each change at once, unless it says otherwise, and seconds later."""
    succeeded_at = after(seconds if succeeded is None else succeeded)
    seen_for = timedelta() if record.ramp_at is None else after(seconds) - record.ramp_at
    return grown(
        record,
        after(seconds),
        POLICY,
        at_once=at_once,
        succeeded_at=None if succeeded == _NEVER else succeeded_at,
        seen_for=seen_for if seen is None else timedelta(seconds=seen),
    )


def test_service_that_is_back_gets_one_call_then_twice_as_many_each_interval() -> None:
    """Of all instances together."""
    record, widths = _with_demand(BACK, 1_000), list[int | None]()
    for second in range(60):
        record = _grown(record, second)
        if record.ramp not in widths:
            widths.append(record.ramp)
    assert widths == [1, 2, 4, 8, 16, 32, 64, 128, None]


def test_ramp_ends_where_the_limit_is_reached() -> None:
    """From then on, that alone counts."""
    record = _with_demand(replace(BACK, ramp=8), 100)
    assert limit_of(record, 10) == 8
    over = _grown(record, 5, at_once=10)
    assert (over.ramp, over.ramp_at, limit_of(over, 10), limit_of(over, None)) == (None, None, 10, None)


def test_ramp_does_not_grow_without_a_success() -> None:
    """Calls that hang tell nothing."""
    record = _with_demand(BACK, 100)
    assert _grown(record, 5, succeeded=-1) is record
    assert _grown(record, 5, succeeded=_NEVER) is record


@pytest.mark.parametrize("ahead", [300, -300])
def test_ramp_grows_by_the_time_of_those_who_look(ahead: float) -> None:
    """By another's clock it would stay for as long as that is ahead, or be over at once."""
    record = _with_demand(replace(BACK, ramp_at=after(ahead)), 100)
    assert _grown(record, 9, seen=4.9) is record
    assert _grown(record, 9, seen=5).ramp == 2


def test_ramp_that_is_not_needed_does_not_grow_and_ends() -> None:
    """There is no crowd, or it is gone; lapsed shares tell nothing."""
    record = _with_demand(replace(BACK, ramp=8), 7)
    assert _grown(record, 59) is record
    assert _grown(record, 60).ramp is None
    lapsed = _with_demand(BACK, 100, until=1)
    assert _grown(lapsed, 5) is lapsed


def test_failure_narrows_the_ramp() -> None:
    """Each by half, to one call at last; it grows again an interval later."""
    record = _with_demand(replace(BACK, ramp=8), 100)
    record = set_back(set_back(record, after(3)), after(4))
    assert (record.ramp, record.ramp_at) == (2, after(4))
    assert _grown(record, 8) is record
    assert _grown(record, 9).ramp == 4
    narrowest = replace(record, ramp=1)
    assert set_back(narrowest, after(5)) is narrowest
    assert set_back(new_record("drone", START), after(5)).ramp is None


def test_service_that_fails_now_and_then_is_not_held_back_for_ever() -> None:
    """After five minutes the circuit alone judges it."""
    record = _with_demand(BACK, 100)
    for second in range(299):
        record = _grown(set_back(record, after(second)) if second % 7 == 0 else record, second)
    assert record.ramp is not None
    assert _grown(record, 300).ramp is None


def test_without_a_ramp_nothing_changes() -> None:
    """As after the start."""
    record = _with_demand(new_record("drone", START), 100)
    assert _grown(record, 500) is record
    assert limit_of(record, None) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 300)), max_size=100))
def test_ramp_never_grows_by_more_than_twice_an_interval(events: list[tuple[int, bool, int]]) -> None:
    """Whatever fails, and whatever is wanted."""
    record, second, changed_at = BACK, 0, 0
    for passed, fails, wanted in events:
        second += passed
        before = record.ramp
        record = set_back(record, after(second)) if fails else record
        record = _grown(_with_demand(record, wanted), second)
        if before is None:
            assert record.ramp is None
        elif record.ramp is not None:
            assert 1 <= record.ramp <= 2 * before
            assert record.ramp <= before or second >= changed_at + 5
        changed_at = second if record.ramp != before else changed_at


@pytest.mark.parametrize(("wanted", "until", "expected"), [(1, 10, False), (2, 10, True), (2, 0, False)])
def test_limit_is_reached_while_there_is_work_for_more(wanted: int, until: float, *, expected: bool) -> None:
    """Of instances that are gone, nobody waits."""
    assert is_reached(_with_demand(BACK, wanted, until=until), START) is expected


def test_what_is_not_limited_is_never_reached() -> None:
    """However much there is to do."""
    assert not is_reached(_with_demand(new_record("drone", START), 1_000), START)
