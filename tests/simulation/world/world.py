"""What all parts of a simulation share: time, chance, the fates of requests, and the timeline."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random

from tests.simulation.world.fate import Fates
from tests.simulation.world.loop import VirtualLoop
from tests.simulation.world.timeline import Timeline

#: The time at which every simulation begins: at midnight nothing is due that runs once a day.
START = datetime(2026, 1, 5, tzinfo=UTC)


class World:
    """Time is true here: hosts have clocks of their own. Chance has one stream for each of its uses."""

    def __init__(self, seed: int | str, loop: VirtualLoop, fates: Fates) -> None:
        self.seed = seed
        self.loop = loop
        self.fates = fates
        self.timeline = Timeline()
        self._streams: dict[str, Random] = {}

    def chance(self, use: str) -> Random:
        """Give the stream of one use: what one draws does not change what another gets."""
        if use not in self._streams:
            self._streams[use] = Random(f"{self.seed}/{use}")
        return self._streams[use]

    @property
    def now(self) -> datetime:
        """Give the true time."""
        return START + timedelta(seconds=self.loop.time())

    def timestamp(self) -> float:
        """Give the true time as seconds since 1970."""
        return self.now.timestamp()

    def tell(self, who: str, what: str) -> None:
        """Add to the timeline."""
        self.timeline.add(self.loop.time(), who, what)

    def fault(self, kind: str, who: str, what: str = "") -> None:
        """Count a fault that had an effect, and tell it."""
        self.timeline.faults[kind] += 1
        self.timeline.kinds.add(kind)
        self.tell(who, f"!! {kind} {what}")

    def met(self, kind: str) -> None:
        """Note that a kind of faults that was drawn had an effect."""
        self.timeline.kinds.add(kind)

    async def sleep_until(self, at: float) -> None:
        """Wait until a virtual time."""
        await asyncio.sleep(max(0.0, at - self.loop.time()))
