"""Injects the faults of a lane, one after the other, until the plan's time is over; and counts them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from tests.chaos.plan.faults import LANES, FaultLane, InjectedFault, Injection
from tests.chaos.plan.schedule import GRACE, Plan

#: Their faults affect a platform that has nothing to do, too: the orders are for those of the others.
_NEED_NO_ORDER = frozenset({FaultLane.OUTAGES, FaultLane.CLOCKS})

#: Injects one fault, ends it, and returns how often it affected something.
type Injector = Callable[[Injection], Awaitable[int]]
#: Has one more order submitted, for a fault to affect.
type MoreOrders = Callable[[], None]


class FaultCounts:
    """How often each fault really happened; one that was injected and affected nothing does not count."""

    def __init__(self) -> None:
        self._counts: Counter[InjectedFault] = Counter()

    def add(self, fault: InjectedFault, times: int = 1) -> None:
        """Count a fault that happened so many times."""
        self._counts[fault] += times

    def has(self, fault: InjectedFault) -> bool:
        """Return whether this fault has happened."""
        return self._counts[fault] > 0

    @property
    def by_fault(self) -> Mapping[InjectedFault, int]:
        """All faults with their counts, 0 for those that never happened."""
        return {fault: self._counts[fault] for fault in InjectedFault}


async def run_lane(
    plan: Plan, lane: FaultLane, inject: Injector, counts: FaultCounts, more_orders: MoreOrders
) -> None:
    """Inject the lane's faults for the plan's time, and each of them at least once, however slow all is.

    What has affected nothing is injected again, but not for ever; each time with one more order if
    it needs one.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + plan.seconds
    tried = set[InjectedFault]()
    for injection in plan.injections(lane):
        if loop.time() > end:
            missing = [fault for fault in LANES[lane] if not counts.has(fault)]
            if not missing or (loop.time() > end + GRACE and tried.issuperset(missing)):
                return
            if injection.fault not in missing:
                continue
        tried.add(injection.fault)
        await _pause(injection.before)
        if loop.time() > end and lane not in _NEED_NO_ORDER:
            more_orders()  # not before the pause: a quick platform has done an order by its end
        counts.add(injection.fault, await inject(injection))


async def _pause(seconds: float) -> None:
    await asyncio.sleep(seconds)
