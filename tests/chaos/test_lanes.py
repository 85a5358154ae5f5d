"""A lane's faults are injected one after the other, each at least once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.chaos.injection import lanes
from tests.chaos.injection.lanes import FaultCounts, run_lane
from tests.chaos.plan.faults import LANES, FaultLane, InjectedFault, Injection
from tests.chaos.plan.schedule import make_plan


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Inject the faults without a pause between them, and give those that there would have been."""
    pauses = list[float]()

    async def at_once(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(lanes, "_pause", at_once)
    return pauses


async def test_fault_that_affected_nothing_is_injected_again(pauses: list[float]) -> None:
    """After the plan's time, only those that have not happened yet are injected, each with one more order.

    It is submitted when the pause before the fault is over.
    """
    tried: Counter[InjectedFault] = Counter()
    fault_counts, more = FaultCounts(), list[tuple[int, int]]()

    def more_orders() -> None:
        more.append((len(pauses), tried.total()))

    async def inject(injection: Injection) -> int:
        tried[injection.fault] += 1
        needs_three = injection.fault is InjectedFault.SERVER_BUSY
        return int(not needs_three or tried[injection.fault] == 3)

    await run_lane(make_plan(1, 10, 0.0), FaultLane.BROKER, inject, fault_counts, more_orders)
    assert all(map(fault_counts.has, LANES[FaultLane.BROKER]))
    assert tried[InjectedFault.SERVER_BUSY] == 3
    assert more == [(number + 1, number) for number in range(tried.total())]
    assert all(
        tried[fault] == 1 for fault in LANES[FaultLane.BROKER] if fault is not InjectedFault.SERVER_BUSY
    )


async def test_outages_leave_the_orders_to_faults_that_need_them() -> None:
    """A short run has few orders to spare, and more outages than that after the plan's time."""

    async def happens(_injection: Injection) -> int:
        return 1

    more = list[int]()
    await run_lane(make_plan(1, 10, 0.0), FaultLane.OUTAGES, happens, FaultCounts(), lambda: more.append(1))
    assert more == []


async def test_fault_that_never_affects_anything_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run continues without it, and is reported as vacuous."""
    monkeypatch.setattr(lanes, "GRACE", 0.05)
    fault_counts = FaultCounts()

    async def nothing(_injection: Injection) -> int:
        return 0

    await run_lane(make_plan(1, 10, 0.0), FaultLane.PAYMENTS, nothing, fault_counts, _nobody)
    assert set(fault_counts.by_fault.values()) == {0}


async def test_each_fault_is_injected_also_where_that_takes_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a slow machine, one restart may take longer than the plan's time."""
    monkeypatch.setattr(lanes, "GRACE", 0.0)
    tried: Counter[InjectedFault] = Counter()

    async def slowly(injection: Injection) -> int:
        tried[injection.fault] += 1
        await asyncio.sleep(0.01)
        return 0

    await run_lane(make_plan(1, 10, 0.0), FaultLane.PAYMENTS, slowly, FaultCounts(), _nobody)
    assert tried == dict.fromkeys(LANES[FaultLane.PAYMENTS], 1)


def _nobody() -> None:
    """Submit nothing."""
