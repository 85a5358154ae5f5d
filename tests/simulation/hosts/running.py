"""The hosts that are up, and who wants to know of those that come up."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.hosts.host import Host
from tests.simulation.world.world import World

#: The part of requests that go to any host.
_ANOTHER = 0.1


class Running:
    """Hosts by chance."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._hosts: list[Host] = []
        self._told: list[Callable[[Host], None]] = []
        self._usual: Host | None = None

    @property
    def hosts(self) -> list[Host]:
        """Give all that are up."""
        return [each for each in self._hosts if each.is_up]

    def drain(self, host: Host) -> None:
        """Give a host nothing more; what it does, it does to the end."""
        self._hosts = [each for each in self.hosts if each is not host]
        self._usual = None if self._usual is host else self._usual

    def on_start(self, told: Callable[[Host], None]) -> None:
        """Tell of each host that comes up."""
        self._told.append(told)

    def add(self, host: Host) -> None:
        """Add a host that has come up."""
        self._hosts = [*self.hosts, host]
        for each in self._told:
            each(host)

    def any(self, use: str, is_able: Callable[[Host], bool] = lambda _: True) -> Host | None:
        """Give one that is up and able, and is not frozen if another is not; None when none is up."""
        up = [each for each in self.hosts if is_able(each)]
        awake = [each for each in up if each.frozen_until <= self._world.loop.time()]
        return self._world.chance(use).choice(awake or up) if up else None

    def usual(self, use: str) -> Host | None:
        """Give mostly the one that was given before, if it is awake: each first request of a host is dear."""
        host = self.any(use)
        if host is None or self._world.chance(use).random() < _ANOTHER:
            return host
        there = self._usual
        if there is None or not there.is_up or there.frozen_until > self._world.loop.time():
            self._usual = there = host
        return there
