"""What a seed decides: orders, scenarios, poison and faults."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from functions.pattern.definition import Registry
from tests.chaos.app.deployment import ORDERS, Deployed
from tests.chaos.plan.faults import LANES, FaultLane, InjectedFault
from tests.chaos.plan.schedule import Scenario, faults_of, make_plan


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
    for last in (Scenario.REFUSED, Scenario.GARBLED, Scenario.OVERTAKEN):
        scenarios[last] -= 1  # comes when all faults have ended
    assert set(scenarios.values()) == {each}
    assert set(scenarios) == set(Scenario) - {Scenario.SMOOTH, Scenario.CANCELLED, Scenario.DRAWN}


def test_orders_and_poison_are_sent_within_the_time() -> None:
    """Four of five orders come during the faults; the last fifth is held back."""
    plan = make_plan(1, 200, 60)
    assert all(order.at is not None and 0 <= order.at < plan.seconds for order in plan.orders[:160])
    assert {order.at for order in plan.orders[160:]} == {None}
    assert {order.scenario for order in plan.orders[160:197]} == {Scenario.SMOOTH}
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


def test_faults_that_cannot_be_injected_need_not_happen() -> None:
    """A lane of which nothing can be is not run, and I14 does not ask for it."""
    clocks = frozenset(LANES[FaultLane.CLOCKS])
    plan = make_plan(1, 200, 60, not_run=clocks)
    assert FaultLane.CLOCKS not in plan.lanes
    assert faults_of(plan) == frozenset(InjectedFault) - clocks


@pytest.mark.parametrize("seed", range(1, 9))
def test_drawn_orders_are_of_workflows_that_can_be_deployed(seed: int) -> None:
    """Beside the product's orders, in each version; the same seed draws the same."""
    plan = make_plan(seed, 10, 60, drawn=12)
    drawn = [each.drawn for each in plan.orders if each.drawn is not None]
    assert len({each.id for each in drawn}) == 12
    again = [each.drawn for each in make_plan(seed, 10, 60, drawn=12).orders if each.drawn is not None]
    assert [(each.id, each.payload, each.refused, each.workflow.shape) for each in again] == [
        (each.id, each.payload, each.refused, each.workflow.shape) for each in drawn
    ]
    resources = set[str]()
    for version in (1, 2, 3):
        registrations = Deployed(version=version, step=4, seed=seed).registrations
        workflows = tuple(workflow for each in registrations for workflow in each.versions)
        registry = Registry(workflows, {})
        resources = {workflow.resource for workflow in registry.newest}
        assert len([each for each in registry if each.name == "orders"]) == version
    assert {each.workflow.resource for each in drawn} <= resources


def test_versions_of_the_orders_differ_in_what_is_recorded() -> None:
    """The first is the product's own."""
    [registration] = Deployed(version=3, step=4).registrations
    third, second, first = registration.versions
    assert first is ORDERS
    assert len({each.shape for each in (first, second, third)}) == 3
