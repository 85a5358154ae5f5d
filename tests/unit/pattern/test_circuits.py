"""The circuit of a service, its ramp after an outage, and the shares of its places."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.breaker import (
    BreakerPolicy,
    BreakerRecord,
    BreakerState,
    Verdict,
    after_failure,
    after_success,
    as_probe,
    new_record,
)
from functions.pattern.ramp import grown, is_reached, limit_of, set_back
from functions.pattern.shares import (
    MOST_HOLDERS,
    Demand,
    Share,
    fair_places,
    given_back,
    is_short,
    live,
    part_of,
    renewed,
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
    # Success between makes failures count from the start.
    record = after_success(replace(NEW, failures=2), after(1))
    assert after_failure(record, "", after(1), POLICY).state is BreakerState.CLOSED
    # Success after success changes nothing.
    assert after_success(NEW, after(5)) is NEW


def test_open_breaker_leaves_the_service_alone_for_its_time() -> None:
    """Then it is time for a probe."""
    assert OPEN.verdict(after(10.999), timedelta(), POLICY) is Verdict.FAIL_FAST
    assert OPEN.verdict(after(11), timedelta(), POLICY) is Verdict.PROBE
    # Probe keeps others away for as long a time.
    assert PROBED.state is BreakerState.HALF_OPEN
    assert PROBED.verdict(after(20.999), timedelta(), POLICY) is Verdict.FAIL_FAST
    assert PROBED.verdict(after(21), timedelta(), POLICY) is Verdict.PROBE
    # Host whose clock is far ahead does not keep a circuit open.
    for minutes_ahead in (OPEN, PROBED):
        assert minutes_ahead.verdict(after(-300), timedelta(seconds=9.9), POLICY) is Verdict.FAIL_FAST
        assert minutes_ahead.verdict(after(-300), POLICY.open_for, POLICY) is Verdict.PROBE


def test_failed_probe_opens_for_another_interval() -> None:
    """The service has been failing since the first time, and more often now."""
    again = after_failure(PROBED, "drone answered 500", after(12), POLICY)
    assert (again.state, again.since, again.failures) == (BreakerState.OPEN, after(1), 4)
    assert (again.probe_at, again.last_error) == (after(22), "drone answered 500")
    # Probe that succeeds closes.
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


#: An interval is five seconds.
RAMP_POLICY = BreakerPolicy(failures=1, open_for=timedelta(seconds=15))
_NEVER = -1_000
BACK = after_success(after_failure(new_record("drone", START), "down", START, RAMP_POLICY), START)


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
        RAMP_POLICY,
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
    # Without a ramp nothing changes.
    record = _with_demand(new_record("drone", START), 100)
    assert _grown(record, 500) is record
    assert limit_of(record, None) is None


def test_ramp_does_not_grow_without_a_success() -> None:
    """Calls that hang tell nothing."""
    record = _with_demand(BACK, 100)
    assert _grown(record, 5, succeeded=-1) is record
    assert _grown(record, 5, succeeded=_NEVER) is record
    # Ramp that is not needed does not grow and ends.
    record = _with_demand(replace(BACK, ramp=8), 7)
    assert _grown(record, 59) is record
    assert _grown(record, 60).ramp is None
    lapsed = _with_demand(BACK, 100, until=1)
    assert _grown(lapsed, 5) is lapsed


@pytest.mark.parametrize("ahead", [300, -300])
def test_ramp_grows_by_the_time_of_those_who_look(ahead: float) -> None:
    """By another's clock it would stay for as long as that is ahead, or be over at once."""
    record = _with_demand(replace(BACK, ramp_at=after(ahead)), 100)
    assert _grown(record, 9, seen=4.9) is record
    assert _grown(record, 9, seen=5).ramp == 2


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
    # Service that fails now and then is not held back for ever.
    record = _with_demand(BACK, 100)
    for second in range(299):
        record = _grown(set_back(record, after(second)) if second % 7 == 0 else record, second)
    assert record.ramp is not None
    assert _grown(record, 300).ramp is None


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
    # A service without a limit is never at its limit.
    assert not is_reached(_with_demand(new_record("drone", START), 1_000), START)


HOLDERS = ("one", "two", "three", "four")
LEASE = timedelta(seconds=20)
_WANTED = st.dictionaries(st.sampled_from(HOLDERS), st.integers(0, 30), min_size=1)


def _share(holder: str, places: int, *, wanted: int = 9, until: float = 20) -> Share:
    return Share(holder=holder, places=places, wanted=wanted, in_flight=0, until=after(until))


def _demand(holder: str = "one", *, in_flight: int = 0, held: int = 0, wanted: int = 9) -> Demand:
    return Demand(holder=holder, in_flight=in_flight, held=held, wanted=wanted)


def _places(shares: tuple[Share, ...]) -> dict[str, int]:
    return {share.holder: share.places for share in shares}


@given(st.integers(0, 40), _WANTED, st.dictionaries(st.sampled_from(HOLDERS), st.integers(0, 30)))
def test_places_are_divided_fairly_and_wholly(
    limit: int, wanted: dict[str, int], held: dict[str, int]
) -> None:
    """Who lacks some has no fewer than anybody, but for one that can't be divided; nothing is left over."""
    given_to = fair_places(limit, wanted, held)
    assert given_to.keys() == wanted.keys()
    assert sum(given_to.values()) == limit
    assert min(given_to.values()) >= 0
    for holder, places in given_to.items():
        if places < wanted[holder]:
            assert max(given_to.values()) <= places + 1


def test_what_cannot_be_divided_stays_where_it_is() -> None:
    """So that it does not change hands each time."""
    for holder in HOLDERS[:3]:
        assert fair_places(10, dict.fromkeys(HOLDERS[:3], 9), {holder: 4})[holder] == 4
    # Places without demand are divided as well.
    assert fair_places(10, {"one": 1, "two": 0}, {}) == {"one": 5, "two": 5}
    # Alone an instance gets all.
    [share] = renewed((), 10, _demand(wanted=2), START, START + LEASE)
    assert share == Share(holder="one", places=10, wanted=2, in_flight=0, until=after(20))


def test_newcomer_gets_what_is_free_and_the_rest_when_it_is() -> None:
    """The others keep what their steps hold, and take no more than their part."""
    shares = renewed((_share("two", 10),), 10, _demand(), START, START + LEASE)
    assert _places(shares) == {"two": 10, "one": 0}
    assert part_of(shares, 10, _demand("two"), START) == 5
    shares = renewed(shares, 10, _demand("two", in_flight=6, held=7), START, START + LEASE)
    assert _places(shares) == {"one": 0, "two": 7}
    assert _places(renewed(shares, 10, _demand(), START, START + LEASE)) == {"two": 7, "one": 3}
    # Row has an end.
    others = tuple(_share(f"host-{number}", 0) for number in range(MOST_HOLDERS))
    assert renewed(others, 10, _demand(), START, START + LEASE) == others


def test_share_that_has_lapsed_is_free() -> None:
    """Its holder has no call in flight; if it comes back, it has nothing either."""
    lapsed = _share("two", 10, until=0)
    assert live((lapsed,), START) == ()
    shares = renewed((lapsed,), 10, _demand(), START, START + LEASE)
    assert _places(shares) == {"one": 10}
    back = renewed(shares, 10, _demand("two", held=10), START, START + LEASE)
    assert _places(back)["two"] == 0
    # Share is given back whole.
    shares = (_share("one", 3), _share("two", 3), _share("three", 4, until=-1))
    assert _places(given_back(shares, "one", START)) == {"two": 3}
    # Lack of another is seen.
    short = _share("two", 3, wanted=4)
    assert is_short((short,), "one", START)
    assert not is_short((short,), "two", START)
    assert not is_short((replace(short, until=START),), "one", START)
    assert not is_short((_share("two", 3, wanted=3),), "one", START)


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.sampled_from(HOLDERS), st.integers(0, 12), st.integers(0, 30)), max_size=40),
)
def test_limit_is_never_passed(limit: int, renewals: list[tuple[str, int, int]]) -> None:
    """Whoever renews in what order, with steps that hold what their share allows; some lapse meanwhile."""
    shares: tuple[Share, ...] = ()
    for second, (holder, held, passes) in enumerate(renewals):
        now = after(second + passes)
        has = _places(live(shares, now)).get(holder, 0)
        demand = _demand(holder, in_flight=min(held, has), held=min(held, has), wanted=held)
        shares = renewed(shares, limit, demand, now, now + LEASE)
        assert sum(_places(live(shares, now)).values()) <= limit
        assert _places(shares)[holder] >= demand.in_flight
