"""The hosts that are up, and who wants to know of those that come up."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.hosts.host import Host
from tests.simulation.world.world import World


class Running:
    """Hosts by chance."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._hosts: list[Host] = []
        self._told: list[Callable[[Host], None]] = []

    @property
    def hosts(self) -> list[Host]:
        """Give all that are up."""
        return [each for each in self._hosts if each.is_up]

    def on_start(self, told: Callable[[Host], None]) -> None:
        """Tell of each host that comes up."""
        self._told.append(told)

    def add(self, host: Host) -> None:
        """Add a host that has come up."""
        self._hosts = [*self.hosts, host]
        for each in self._told:
            each(host)

    def any(self, use: str) -> Host | None:
        """Give one that is up, and is not frozen if another is not; None when none is up."""
        up = self.hosts
        awake = [each for each in up if each.frozen_until <= self._world.loop.time()]
        return self._world.chance(use).choice(awake or up) if up else None
