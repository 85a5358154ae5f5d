"""A seed decides the orders and the order of the faults."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tests.chaos.plan import LANES, FaultLane, InjectedFault, Scenario, make_plan


def test_same_seed_makes_the_same_plan() -> None:
    """A run can be repeated, except for the races between processes; other seeds draw other plans."""
    first, second, other = make_plan(7, 200, 60), make_plan(7, 200, 60), make_plan(8, 200, 60)
    assert first == second
    for lane in FaultLane:
        faults = list(islice(first.injections(lane), 50))
        assert faults == list(islice(second.injections(lane), 50))
        assert faults != list(islice(other.injections(lane), 50))


def test_lanes_have_each_fault_once_in_each_round() -> None:
    """Each fault has its turn, first in one host and then in all."""
    assert Counter(fault for lane in LANES.values() for fault in lane) == Counter(InjectedFault)
    for lane, faults in LANES.items():
        injections = make_plan(3, 200, 60).injections(lane)
        for everywhere in (False, True, False):
            drawn = list(islice(injections, len(faults)))
            assert Counter(each.fault for each in drawn) == Counter(faults)
            assert {each.everywhere for each in drawn} == {everywhere}


@pytest.mark.parametrize("orders", [10, 200])
def test_every_scenario_of_every_resource_has_its_orders(orders: int) -> None:
    """One order in five is held back; the others are submitted within the plan's time."""
    plan = make_plan(1, orders, 60)
    usual = [each for each in plan.orders if each.at is not None]
    assert len(plan.orders) == orders
    assert len(usual) == orders - orders // 5
    assert all(each.at is not None and 0 <= each.at < plan.seconds for each in usual)
    pairs = {(each.resource, each.scenario) for each in usual}
    assert pairs == {(resource, each) for resource in ("orders", "deliveries") for each in Scenario}
    assert {each.id for each in plan.orders if each.cancelled is not None} == {
        each.id for each in plan.orders if each.scenario is Scenario.CANCELLED
    }
    assert set(plan.refused.values()) == {"payment", "drone"}
