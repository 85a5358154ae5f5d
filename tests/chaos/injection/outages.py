"""Faults of the platform's parts and of the connections to the tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle

from local.platform import PartName, Platform
from tests.chaos.injection.proxy import Proxy, ProxyMode
from tests.chaos.plan.faults import InjectedFault, Injection

#: The only host is the first.
_HOSTS = (PartName.HOST, PartName.SCHEDULER, PartName.AGENTS, PartName.SUPERVISOR)
_KILLED = {InjectedFault.HOST_KILLED: PartName.HOST, InjectedFault.BROKER_KILLED: PartName.BROKER}
_RESTARTED = {
    InjectedFault.HOST_RESTARTED: PartName.HOST,
    InjectedFault.AZURITE_RESTARTED: PartName.AZURITE,
}
_PAUSED = {
    InjectedFault.HOST_PAUSED: PartName.HOST,
    InjectedFault.BROKER_PAUSED: PartName.BROKER,
    InjectedFault.AZURITE_PAUSED: PartName.AZURITE,
}
_MODES = {
    InjectedFault.TABLES_CUT: ProxyMode.CUTTING,
    InjectedFault.TABLES_HELD: ProxyMode.HOLDING,
    InjectedFault.TABLES_SLOW: ProxyMode.SLOWING,
    InjectedFault.TABLE_ANSWERS_LOST: ProxyMode.DROPPING_ANSWERS,
}


@dataclass(frozen=True, slots=True)
class Interval:
    """A time span, in UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class ProxiedAccount:
    """A storage account of the state store: the platform whose Azurite it is, and the proxy to its tables."""

    platform: Platform
    proxy: Proxy


class Outages:
    """Injects outages one at a time: a part that starts needs the others.

    Those of the storage affect one of the accounts, and those of the host one of the hosts, each in its turn.
    """

    def __init__(self, platform: Platform, accounts: Sequence[ProxiedAccount]) -> None:
        self._platform = platform
        self._accounts = cycle(accounts)
        self._hosts = cycle((*_HOSTS[1:], *_HOSTS[:1]) if platform.addresses.ports.are_split else _HOSTS[:1])
        self._host_pauses: list[Interval] = []

    @property
    def host_pauses(self) -> Sequence[Interval]:
        """When the host was frozen: what it began just before may continue just after."""
        return self._host_pauses

    async def inject(self, injection: Injection) -> int:
        """Inject the fault, end it, and return how often it affected something."""
        fault, account = injection.fault, next(self._accounts)
        if fault in _KILLED:
            part = self._one_of(_KILLED[fault])
            await self._platform.kill(part)
            await asyncio.sleep(injection.lasts / 2)
            await self._platform.start(part)
            return 1
        if fault in _RESTARTED:
            part = self._one_of(_RESTARTED[fault])
            await self._of(part, account).restart(part)
            return 1
        if fault in _PAUSED:
            async with self._paused(self._one_of(_PAUSED[fault]), account):
                await asyncio.sleep(injection.lasts)
            return 1
        async with account.proxy.mode(_MODES[fault]):
            await asyncio.sleep(injection.lasts)
        return account.proxy.affected

    def _one_of(self, part: PartName) -> PartName:
        return next(self._hosts) if part is PartName.HOST else part

    def _of(self, part: PartName, account: ProxiedAccount) -> Platform:
        return account.platform if part is PartName.AZURITE else self._platform

    @asynccontextmanager
    async def _paused(self, part: PartName, account: ProxiedAccount) -> AsyncIterator[None]:
        start, platform = datetime.now(UTC), self._of(part, account)
        platform.pause(part)
        try:
            yield
        finally:
            platform.resume(part)
            if part in _HOSTS:
                self._host_pauses.append(Interval(start, datetime.now(UTC)))
