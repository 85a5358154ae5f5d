"""What a seed decides: orders, scenarios, poison and faults."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tests.chaos.plan.faults import LANES, FaultLane, InjectedFault
from tests.chaos.plan.schedule import GRACE, Scenario, faults_of, make_plan


def test_same_seed_makes_the_same_plan() -> None:
    """A run can be repeated, except for the races between processes."""
    first, second = make_plan(7, 200, 60), make_plan(7, 200, 60)
    assert first == second
    for lane in FaultLane:
        assert list(islice(first.injections(lane), 50)) == list(islice(second.injections(lane), 50))


def test_another_seed_makes_another_plan() -> None:
    """Other seeds try other orders of faults."""
    assert list(islice(make_plan(1, 200, 60).injections(FaultLane.OUTAGES), 11)) != list(
        islice(make_plan(2, 200, 60).injections(FaultLane.OUTAGES), 11)
    )


@pytest.mark.parametrize("lane", list(FaultLane))
def test_each_round_of_a_lane_has_each_fault_once(lane: FaultLane) -> None:
    """No fault is left to chance."""
    faults = make_plan(3, 200, 60).injections(lane)
    for _ in range(3):
        assert Counter(each.fault for each in islice(faults, len(LANES[lane]))) == Counter(LANES[lane])


@pytest.mark.parametrize(("orders", "each"), [(200, 5), (30, 1)])
def test_every_scenario_has_its_orders(orders: int, each: int) -> None:
    """One order in forty has each, and at least one; three are cancelled, and most are smooth."""
    scenarios = Counter(make_plan(1, orders, 60).scenarios.values())
    assert scenarios.pop(Scenario.SMOOTH) > orders / 2
    assert scenarios.pop(Scenario.CANCELLED) == 3 * each
    assert set(scenarios.values()) == {each}
    assert len(scenarios) == len(Scenario) - 2


def test_orders_and_poison_are_sent_within_the_time() -> None:
    """Four of five orders come during the faults; the fifth waits for faults that have affected nothing."""
    plan = make_plan(1, 200, 60)
    assert all(0 <= order.at < plan.seconds for order in plan.orders[:160])
    assert all(plan.seconds <= order.at < plan.seconds + GRACE for order in plan.orders[160:])
    assert all(0 <= poison.at <= plan.seconds for poison in plan.poison)
    assert any(order.again is not None for order in plan.orders)
    cancelled = [order.scenario for order in plan.orders if order.cancelled is not None]
    assert cancelled == [Scenario.CANCELLED] * 15


def test_plan_of_many_orders_must_have_every_fault() -> None:
    """Those of the lanes, of the orders' scenarios, and of the callers."""
    assert faults_of(make_plan(1, 200, 60)) == frozenset(InjectedFault)


def test_plan_of_few_orders_need_not_have_the_faults_of_missing_scenarios() -> None:
    """Three orders cannot have eight scenarios."""
    plan = make_plan(1, 3, 60)
    optional = frozenset(InjectedFault) - faults_of(plan)
    assert optional
    assert not any(fault in optional for lane in LANES.values() for fault in lane)
