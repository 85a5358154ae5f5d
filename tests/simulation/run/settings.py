"""The application's settings in simulation, and the bound for termination that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from tests.simulation.drawn.workflows import AGENTS

#: The part of services with a limit.
_LIMITED = 0.1


@dataclass(frozen=True, slots=True)
class SimulatedTimes:
    """Times are in seconds."""

    sweep: int = 10
    pick_up: int = 20
    agents_pick_up: int = 60
    threshold: int = 3
    extended_waits: tuple[int, ...] = (10, 30)
    skew: int = 5
    breaker_open: int = 5
    shards: int = 1
    alerts_per_minute: int = 20
    steps_at_once: int = 16
    #: How many calls of an Agent's service may be in flight, for those that have a limit.
    limits: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def drawn(cls, chance: Random) -> SimulatedTimes:
        """Draw them; few steps at once, by another chance, so that what follows is drawn as it was before."""
        other = Random(chance.getstate()[1][0])
        return cls(
            steps_at_once=other.choice((16, 16, 4, 2)),
            sweep=chance.choice((15, 30, 60)),
            pick_up=chance.choice((15, 30, 60)),
            agents_pick_up=chance.choice((10, 20, 60)),
            threshold=chance.choice((1, 3)),
            extended_waits=chance.choice(((5,), (10,), (10, 30))),
            shards=chance.choice((1, 1, 1, 2)),
            alerts_per_minute=chance.choice((0, 1, 3, 20)),
            limits={each: chance.choice((1, 2, 4)) for each in AGENTS if chance.random() < _LIMITED},
        )

    @property
    def settings(self) -> dict[str, str]:
        """Give the settings that set these times."""
        limits = {f"AGENT_{each.upper()}_AT_ONCE": str(most) for each, most in self.limits.items()}
        return limits | {
            "STATE_SHARDS": str(self.shards),
            "STEPS_AT_ONCE": str(self.steps_at_once),
            "PICK_UP_SECONDS": str(self.pick_up),
            "AGENTS_PICK_UP_SECONDS": str(self.agents_pick_up),
            "SUPERVISOR_THRESHOLD": str(self.threshold),
            "EXTENDED_WAITS": ",".join(map(str, self.extended_waits)),
            "SKEW_SECONDS": str(self.skew),
            "ALERTS_PER_MINUTE": str(self.alerts_per_minute),
            "BREAKER_OPEN_SECONDS": str(self.breaker_open),
        }

    @property
    def most_recoveries(self) -> int:
        """Give how often a task is recovered in one direction before it is given up."""
        return self.threshold + len(self.extended_waits)

    def termination(self, steps: int, step: float) -> float:
        """Bound the time of a task of so many steps, each of at most so many seconds, when nothing fails.

        Each attempt may have to wait for the skew and a sweep; there are `most_recoveries` + 1 attempts to
        do, and as many to undo, each step once after another.
        """
        attempt = max(step + self.agents_pick_up, self.pick_up) + self.skew + 2 * self.sweep
        direction = (self.most_recoveries + 1) * attempt + sum(self.extended_waits)
        return 2 * direction + 2 * steps * attempt
