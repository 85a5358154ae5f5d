"""What becomes of each request while there are faults."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.simulation.faults.kinds import FaultPlan, SimulatedFault
from tests.simulation.world.fate import Fate, Mishap, Place

#: What each kind does to a request, and how likely it is by the plan's rate.
_MISHAPS: Mapping[SimulatedFault, tuple[tuple[Mishap, float], ...]] = {
    SimulatedFault.NOT_SENT: ((Mishap.NOT_SENT, 1.0),),
    SimulatedFault.ANSWERS_LOST: ((Mishap.ANSWER_LOST, 1.0),),
    SimulatedFault.BUSY: ((Mishap.BUSY, 1.0),),
    SimulatedFault.CRASH_AT_REQUEST: ((Mishap.CRASH_BEFORE, 0.15), (Mishap.CRASH_AFTER, 0.15)),
}
#: Seconds after which a host finds that it does not reach a service.
_UNREACHABLE_AFTER = 3.0


class FaultyFates:
    """Decides; until it is healed, requests meet the plan's faults.

    What is `down` is not reached: links of a host's name, or `*`, and a place.
    """

    def __init__(self, chance: Random, plan: FaultPlan) -> None:
        self._chance = chance
        self._plan = plan
        self._mishaps = [(kind, *each) for kind in sorted(plan.kinds) for each in _MISHAPS.get(kind, ())]
        self.down: set[tuple[str, Place]] = set()
        self.is_healed = not plan.kinds

    def heal(self) -> None:
        """Let nothing more go wrong."""
        self.is_healed = True
        self.down.clear()

    def of(self, host: str, place: Place, what: str) -> Fate:  # noqa: ARG002 - those of one place are alike
        """Decide what becomes of a request."""
        chance = self._chance
        there, back = chance.uniform(0.0005, 0.02), chance.uniform(0.0005, 0.02)
        if self.is_healed:
            return Fate(there, back)
        if (host, place) in self.down or ("*", place) in self.down:
            return Fate(_UNREACHABLE_AFTER, back, Mishap.NOT_SENT)
        if self._plan.is_mild and place is not Place.TABLES:
            return Fate(there, back)
        slow: SimulatedFault | None = None
        if self._plan.has(SimulatedFault.SLOW) and chance.random() < self._plan.rate:
            there, back, slow = chance.uniform(0.5, 20), chance.uniform(0.5, 20), SimulatedFault.SLOW
        for kind, mishap, weight in self._mishaps:
            if chance.random() < self._plan.rate * weight:
                return Fate(there, back, mishap, kind)
        return Fate(there, back, None, slow)
