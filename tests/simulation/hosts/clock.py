"""A host's clock, which may be wrong and run too fast or too slow."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.simulation.world.world import START, World


class HostClock:
    """Tells the time as this host has it: `skew` is in seconds, `rate` in its seconds for a true one."""

    def __init__(self, world: World, *, skew: float = 0.0, rate: float = 1.0) -> None:
        self._world = world
        self._rate = rate
        self._since = world.loop.time()
        self._then = self._since + skew

    def now(self) -> datetime:
        """Give the time now, in UTC."""
        passed = self._world.loop.time() - self._since
        return START + timedelta(seconds=self._then + passed * self._rate)

    def step(self, seconds: float) -> None:
        """Set the clock on, or back."""
        self._then += seconds

    def set_right(self) -> None:
        """Have it tell the true time from now on."""
        self._since = self._then = self._world.loop.time()
        self._rate = 1.0
