"""What a seed decides: orders, fates, poison and faults."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tests.chaos.faults import LANES, FaultKind, Lane
from tests.chaos.plan import GRACE, Fate, kinds_of, make_plan


def test_same_seed_makes_the_same_plan() -> None:
    """A run can be repeated as far as chance is ours."""
    first, second = make_plan(7, 200, 60), make_plan(7, 200, 60)
    assert first == second
    for lane in Lane:
        assert list(islice(first.faults(lane), 50)) == list(islice(second.faults(lane), 50))


def test_another_seed_makes_another_plan() -> None:
    """Seeds explore."""
    assert list(islice(make_plan(1, 200, 60).faults(Lane.OUTAGES), 11)) != list(
        islice(make_plan(2, 200, 60).faults(Lane.OUTAGES), 11)
    )


@pytest.mark.parametrize("lane", list(Lane))
def test_each_round_of_a_lane_has_each_kind_once(lane: Lane) -> None:
    """No kind is left to luck."""
    faults = make_plan(3, 200, 60).faults(lane)
    for _ in range(3):
        assert Counter(fault.kind for fault in islice(faults, len(LANES[lane]))) == Counter(LANES[lane])


@pytest.mark.parametrize(("orders", "each"), [(200, 5), (30, 1)])
def test_every_fate_befalls_some_orders(orders: int, each: int) -> None:
    """One order in forty has each, and one at least; most orders are smooth."""
    fates = Counter(make_plan(1, orders, 60).fates.values())
    assert all(fates[fate] == each for fate in Fate if fate is not Fate.SMOOTH)
    assert fates[Fate.SMOOTH] > orders / 2


def test_orders_and_poison_come_within_the_time() -> None:
    """Four orders of five come while faults do; the fifth waits for faults that have met nobody."""
    plan = make_plan(1, 200, 60)
    assert all(0 <= order.at < plan.seconds for order in plan.orders[:160])
    assert all(plan.seconds <= order.at < plan.seconds + GRACE for order in plan.orders[160:])
    assert all(0 <= poison.at <= plan.seconds for poison in plan.poison)
    assert any(order.again is not None for order in plan.orders)


def test_plan_of_many_orders_must_bring_about_every_kind() -> None:
    """The kinds are those of the lanes, of the orders' fates, and of the callers."""
    assert kinds_of(make_plan(1, 200, 60)) == frozenset(FaultKind)


def test_plan_of_few_orders_is_spared_the_fates_that_it_has_no_order_for() -> None:
    """Three orders can't have seven fates."""
    plan = make_plan(1, 3, 60)
    spared = frozenset(FaultKind) - kinds_of(plan)
    assert spared
    assert not any(kind in spared for lane in LANES.values() for kind in lane)
