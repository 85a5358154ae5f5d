"""Has one host's clock be wrong, or run at another rate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import cycle
from random import Random

import aiohttp

from tests.chaos.hosts.clock import HostClock
from tests.chaos.hosts.host import ChaosHost
from tests.chaos.plan.faults import InjectedFault, Injection

#: The least that a clock is wrong, in seconds: more than the application allows for.
_LEAST = 3.0
#: Seconds that a clock gains in each second, by its rate.
_GAINS = {InjectedFault.CLOCK_FAST: 1.0, InjectedFault.CLOCK_SLOW: -0.5}
#: Seconds between two settings of a clock whose rate is wrong.
_GRAIN = 0.25
_TIMEOUT = aiohttp.ClientTimeout(total=2)


class WrongClocks:
    """Injects wrong clocks one at a time, of the hosts in turn; `most` is how wrong, in seconds."""

    def __init__(self, hosts: Sequence[ChaosHost], most: float, random: Random) -> None:
        self._hosts = cycle(hosts)
        self._most = most
        self._random = random

    async def inject(self, injection: Injection) -> int:
        """Inject the fault, end it, and return 1 if the host was seen to tell the wrong time."""
        host = next(self._hosts)
        try:
            match injection.fault:
                case InjectedFault.CLOCK_AHEAD | InjectedFault.CLOCK_BEHIND:
                    ahead = self._random.uniform(_LEAST, self._most)
                    host.clock.set(ahead if injection.fault is InjectedFault.CLOCK_AHEAD else -ahead)
                    await asyncio.sleep(injection.lasts)
                case _:
                    await _drift(host.clock, _GAINS[injection.fault], injection.lasts)
            return await _is_wrong(host)
        finally:
            host.clock.set(0.0)


async def _drift(clock: HostClock, gains: float, seconds: float) -> None:
    """Set a clock again and again, each time further ahead or behind."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while (passed := loop.time() - start) < seconds:
        clock.set(gains * passed)
        await asyncio.sleep(_GRAIN)


async def _is_wrong(host: ChaosHost) -> int:
    """Tell whether an answer of the host has another date than it should have, to the second."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.get(host.platform.addresses.host_status) as answer,
        ):
            told = parsedate_to_datetime(answer.headers["Date"])
    except (aiohttp.ClientError, TimeoutError, KeyError):
        return 0  # it is down, or frozen
    return int(abs(told - datetime.now(UTC)) >= timedelta(seconds=1))
