"""Cuts one host off from one thing that it needs, which the others still reach."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import cycle

from tests.chaos.hosts.host import ChaosHost
from tests.chaos.hosts.links import LinkTarget
from tests.chaos.injection.proxy import ProxyMode
from tests.chaos.plan.faults import InjectedFault, Injection

_TARGETS: Mapping[InjectedFault, LinkTarget] = {
    InjectedFault.CUT_FROM_TABLES: LinkTarget.TABLES,
    InjectedFault.CUT_FROM_BUS: LinkTarget.BUS,
    InjectedFault.CUT_FROM_SERVICES: LinkTarget.SERVICES,
}
#: Nothing gets through, or requests do and answers do not, or connections are refused.
_MODES = (ProxyMode.HOLDING, ProxyMode.HOLDING_ANSWERS, ProxyMode.CUTTING)


class Partitions:
    """Injects partitions one at a time, of the hosts in turn, in each manner in its turn."""

    def __init__(self, hosts: Sequence[ChaosHost]) -> None:
        self._manners = cycle([(host, mode) for mode in _MODES for host in hosts])

    async def inject(self, injection: Injection) -> int:
        """Inject the fault, end it, and return how many connections and pieces of data it affected."""
        host, mode = next(self._manners)
        proxy = host.links.to(_TARGETS[injection.fault])
        async with host.free, proxy.mode(mode):
            await asyncio.sleep(injection.lasts)
            return proxy.affected
