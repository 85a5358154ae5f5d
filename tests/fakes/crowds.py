"""What tells the Supervisor of crowds: depths of queues, and whom it alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from functions.pattern.intake import Line
from functions.pattern.known_crowds import Crowd
from functions.pattern.ports import Pile, QueueDepth


class RecordedCrowds:
    """Records the alerts of tasks that are late together."""

    def __init__(self) -> None:
        self.alerts: list[Crowd] = []

    async def alert(self, crowd: Crowd, per_minute: int) -> None:  # noqa: ARG002 - the port's signature
        """Record the alert."""
        self.alerts.append(crowd)


class FixedDepths:
    """Gives the depths that a test sets, and counts how often it is asked."""

    def __init__(self) -> None:
        self.oldest: dict[str, datetime] = {}
        self.looks = 0

    async def depths(self) -> Sequence[QueueDepth]:
        """Give one line for each queue on which something waits."""
        self.looks += 1
        return [QueueDepth(name, Pile(1, more=False, oldest_at=at), None) for name, at in self.oldest.items()]


class FixedLine:
    """Gives the line that a test sets, or raises its failure."""

    def __init__(self) -> None:
        self.there = Line(0, None)
        self.failure: Exception | None = None

    async def look(self) -> Line:
        """Tell what waits."""
        if self.failure is not None:
            raise self.failure
        return self.there
