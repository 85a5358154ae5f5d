"""The application's time limits in a run, short enough for many recoveries, and the bound that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from tests.chaos.app.drawn import MOST_STEPS, WAITS


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are in seconds."""

    step: int = 4
    pick_up: int = 6
    #: How long a request may wait for its Agent, beside the step's own time.
    agents_pick_up: int = 4
    sweep: int = 2
    threshold: int = 3
    extended_waits: tuple[int, ...] = (2, 4, 8)
    skew: int = 1
    breaker_open: int = 2
    #: How long a receiver that was killed keeps a message locked (`infra/queues.json`).
    message_lock: int = 60
    #: The age at which the Supervisor sends an announcement again.
    announcement_age: int = 30
    #: For how long a task can have more time because many are late together.
    crowd: int = 60
    #: How far a host's clock is set ahead or back at most.
    clock: int = 90

    @property
    def settings(self) -> Mapping[str, str]:
        """The application settings that set these times."""
        return {
            "STEP_SECONDS": f"orders.payment={self.step}",
            "PICK_UP_SECONDS": str(self.pick_up),
            "AGENTS_PICK_UP_SECONDS": str(self.agents_pick_up),
            "SUPERVISOR_SCHEDULE": f"*/{self.sweep} * * * * *",
            "SUPERVISOR_THRESHOLD": str(self.threshold),
            "EXTENDED_WAITS": ",".join(map(str, self.extended_waits)),
            "SKEW_SECONDS": str(self.skew),
            "BREAKER_OPEN_SECONDS": str(self.breaker_open),
            "CROWD_HOURS": str(self.crowd / 3600),
            "ALERTS_PER_MINUTE": "2",
        }

    @property
    def within_of_a_dispatch(self) -> timedelta:
        """The time from a dispatch to its complete-by, at most: over a queue, it may also wait."""
        return timedelta(seconds=self.agents_pick_up + self.step)

    @property
    def most_recoveries(self) -> int:
        """How often the Supervisor recovers a task in one direction before it gives up."""
        return self.threshold + len(self.extended_waits)

    def termination(self, *, drawn: bool = False) -> float:
        """Return the bound of I7: the time from the last fault until every task must be finished.

        Each attempt takes its time limit, the skew allowance and a sweep; there are `most_recoveries` + 1
        attempts to do and as many to undo. Before that, a message may have to wait for the lock of a killed
        receiver; after that, an announcement for the Supervisor to send it again. What a clock that was ahead
        has written is due that much later. In a crowd a task has more time, once. Drawn workflows have more
        steps, one after another, and waits.
        """
        attempt = max(self.agents_pick_up + self.step, self.pick_up) + self.skew + self.sweep
        direction = (self.most_recoveries + 1) * attempt + sum(self.extended_waits)
        waits = self.message_lock + self.announcement_age + self.sweep + self.clock + self.crowd
        one_step = 2 * direction + waits
        return one_step + (2 * MOST_STEPS * attempt + sum(WAITS.values()) if drawn else 0)
