"""Hosts are killed alone, each in its turn, or all at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from local.platform.blueprint import whole_platform
from tests.chaos.app.deployment import Deployed
from tests.chaos.hosts.host import ChaosHost
from tests.chaos.hosts.links import HostLinks
from tests.chaos.injection.outages import Outages
from tests.chaos.plan.faults import InjectedFault, Injection

_LASTS = 0.01


class _NotedHost(ChaosHost):
    """Notes who is dead at the end of each of its outages."""

    def __init__(self, name: str, folder: Path, dead: set[str], seen: list[set[str]]) -> None:
        super().__init__(HostLinks(), folder / name)
        self.make_platform({}, whole_platform, split=False)
        self._name, self._dead, self._seen = name, dead, seen

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        self._dead.add(self._name)
        yield
        self._seen.append(set(self._dead))
        self._dead.remove(self._name)


@pytest.mark.parametrize(
    ("everywhere", "killed", "seen"),
    [(False, 1, [{"first"}, {"second"}, {"first"}]), (True, 2, [{"first", "second"}, {"second"}])],
    ids=["alone", "all at once"],
)
async def test_hosts_are_killed(
    tmp_path: Path, *, everywhere: bool, killed: int, seen: Sequence[set[str]]
) -> None:
    """Each kill counts; of hosts that die at once, nobody is left."""
    noted: list[set[str]] = []
    dead = set[str]()
    hosts = [_NotedHost(name, tmp_path, dead, noted) for name in ("first", "second")]
    outages = Outages(hosts, Deployed(version=1, step=1.0))
    while len(noted) < len(seen):
        injection = Injection(InjectedFault.HOST_KILLED, 0.0, _LASTS, everywhere=everywhere)
        assert await outages.inject(injection) == killed
    assert noted == list(seen)
    assert not any(host.free.locked() for host in hosts)
