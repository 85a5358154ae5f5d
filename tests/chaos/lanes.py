"""Lets the faults of a lane happen, one after the other, until their time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.chaos.faults import LANES, Fault, Lane
from tests.chaos.plan import GRACE, Plan
from tests.chaos.tally import Tally

#: Lets a fault begin and end, and tells how often it met something.
type Happens = Callable[[Fault], Awaitable[int]]


async def run_lane(plan: Plan, lane: Lane, happen: Happens, tally: Tally) -> None:
    """Let the lane's faults happen for the plan's time, and each kind once at least."""
    loop = asyncio.get_running_loop()
    end = loop.time() + plan.seconds
    for fault in plan.faults(lane):
        if loop.time() > end:
            if all(map(tally.has, LANES[lane])) or loop.time() > end + GRACE:
                return
            if tally.has(fault.kind):
                continue
        await _quiet(fault.before)
        tally.add(fault.kind, await happen(fault))


async def _quiet(seconds: float) -> None:
    await asyncio.sleep(seconds)
