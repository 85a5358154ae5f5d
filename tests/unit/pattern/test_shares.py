"""Who gets how many places: never more than the limit in all, as fair as can be, and none left empty."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

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


def test_what_nobody_wants_is_given_out_too() -> None:
    """An instance that gets work has places for it at once."""
    assert fair_places(10, {"one": 1, "two": 0}, {}) == {"one": 5, "two": 5}


def test_alone_an_instance_gets_all() -> None:
    """From the first time."""
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


def test_share_that_has_lapsed_is_free() -> None:
    """Its holder has no call in flight; if it comes back, it has nothing either."""
    lapsed = _share("two", 10, until=0)
    assert live((lapsed,), START) == ()
    shares = renewed((lapsed,), 10, _demand(), START, START + LEASE)
    assert _places(shares) == {"one": 10}
    back = renewed(shares, 10, _demand("two", held=10), START, START + LEASE)
    assert _places(back)["two"] == 0


def test_share_is_given_back_whole() -> None:
    """With those that have lapsed."""
    shares = (_share("one", 3), _share("two", 3), _share("three", 4, until=-1))
    assert _places(given_back(shares, "one", START)) == {"two": 3}


def test_lack_of_another_is_seen() -> None:
    """Not one's own, and not that of a share that has lapsed."""
    short = _share("two", 3, wanted=4)
    assert is_short((short,), "one", START)
    assert not is_short((short,), "two", START)
    assert not is_short((replace(short, until=START),), "one", START)
    assert not is_short((_share("two", 3, wanted=3),), "one", START)


def test_row_has_an_end() -> None:
    """More instances than the row can hold get nothing, and the others keep theirs."""
    others = tuple(_share(f"host-{number}", 0) for number in range(MOST_HOLDERS))
    assert renewed(others, 10, _demand(), START, START + LEASE) == others


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
