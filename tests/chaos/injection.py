"""Injects the faults of both lanes, and counts those that had an effect."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle

from local.platform import PartName
from tests.chaos.environment import ChaosHost, ProxyMode
from tests.chaos.plan import LANES, FaultLane, InjectedFault, Injection, Plan

#: Seconds after the plan's time in which a fault without effect is injected again.
_GRACE = 180.0
#: Seconds for which a partition is extended until it has had an effect.
_EXTENDED = 20.0
_LOOK_EVERY = 0.1
#: Nothing gets through; or requests do and answers do not; or connections are refused.
_MODES = (ProxyMode.HOLDING, ProxyMode.HOLDING_ANSWERS, ProxyMode.CUTTING)
_PAUSED = {InjectedFault.BROKER_PAUSED: PartName.BROKER, InjectedFault.AZURITE_PAUSED: PartName.AZURITE}


async def run_lane(
    plan: Plan,
    lane: FaultLane,
    inject: Callable[[Injection], Awaitable[int]],
    counts: Counter[InjectedFault],
    more_orders: Callable[[], None],
) -> None:
    """Inject the faults of a lane for the plan's time, then those without effect again with one more order.

    The retries end `_GRACE` seconds after the plan's time.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + plan.seconds
    for injection in plan.injections(lane):
        if loop.time() > end:
            missing = [fault for fault in LANES[lane] if not counts[fault]]
            if not missing or loop.time() > end + _GRACE:
                return
            if injection.fault not in missing:
                continue
        await asyncio.sleep(injection.before)
        if loop.time() > end:
            more_orders()  # after the pause: a quick platform would process the order within it
        counts[injection.fault] += await inject(injection)


class Injector:
    """Injects one fault at a time in each lane, into one of the hosts in turn or into all of them."""

    def __init__(self, hosts: Sequence[ChaosHost]) -> None:
        self._hosts = hosts
        self._platform = hosts[0].platform
        self._turns = {lane: cycle(hosts) for lane in FaultLane}
        self._modes = cycle(_MODES)

    async def inject(self, injection: Injection) -> int:
        """Inject the fault, end it, and return the number of its effects."""
        fault = injection.fault
        if fault is InjectedFault.BROKER_KILLED:
            await self._platform.kill(PartName.BROKER)
            await asyncio.sleep(injection.lasts / 2)
            await self._platform.start(PartName.BROKER)
            return 1
        if fault in _PAUSED:
            return await _paused(self._hosts[0], _PAUSED[fault], injection.lasts)
        lane = FaultLane.PARTITIONS if fault in LANES[FaultLane.PARTITIONS] else FaultLane.PARTS
        hosts = self._hosts if injection.everywhere else [next(self._turns[lane])]
        if lane is FaultLane.PARTS:
            return sum(await asyncio.gather(*(_disturbed(host, injection) for host in hosts)))
        mode = next(self._modes)
        return sum(await asyncio.gather(*(_cut_off(host, injection, mode) for host in hosts)))


async def _disturbed(host: ChaosHost, injection: Injection) -> int:
    async with host.free:
        if injection.fault is InjectedFault.HOST_PAUSED:
            return await _paused(host, PartName.HOST, injection.lasts)
        async with host.killed():
            await asyncio.sleep(injection.lasts / 2)
    return 1


async def _paused(host: ChaosHost, part: PartName, seconds: float) -> int:
    host.platform.pause(part)
    try:
        await asyncio.sleep(seconds)
    finally:
        host.platform.resume(part)
    return 1


async def _cut_off(host: ChaosHost, injection: Injection, mode: ProxyMode) -> int:
    """Return the number of connections and pieces of data that the partition affected."""
    proxy = host.proxy_of(injection.fault)
    async with host.free, proxy.mode(mode):
        await asyncio.sleep(injection.lasts)
        for _ in range(int(_EXTENDED / _LOOK_EVERY)):
            if proxy.affected:
                break
            await asyncio.sleep(_LOOK_EVERY)
        return proxy.affected
