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
        #: What it jumped ahead when it was set right.
        self._jumped = timedelta()

    def now(self) -> datetime:
        """Give the time now, in UTC."""
        passed = self._world.loop.time() - self._since
        return START + timedelta(seconds=self._then + passed * self._rate)

    def by_timers(self) -> datetime:
        """Give the time by what timers count that were begun before it was set right."""
        return self.now() - self._jumped

    def step(self, seconds: float) -> None:
        """Set the clock on, or back."""
        self._then += seconds

    def set_right(self) -> None:
        """Have it tell the true time from now on."""
        before = self.now()
        self._since = self._then = self._world.loop.time()
        self._rate = 1.0
        self._jumped = max(timedelta(), self.now() - before)
