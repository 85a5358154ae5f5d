"""How full the queues are, as far as one may look without the right to manage them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Pile:
    """Messages that lie in one place: `more` says that there are more than `count`.

    `oldest_at` (UTC) is when the oldest came to lie there. Those that wait for a time of their own are
    `scheduled`, and not counted.
    """

    count: int
    more: bool
    oldest_at: datetime | None
    scheduled: int = 0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """One queue and its dead letters; None is what could not be looked at."""

    queue: str
    waiting: Pile | None
    dead: Pile | None


class Queues(Protocol):
    """The queues, from outside."""

    async def depths(self) -> Sequence[QueueDepth]:
        """Look at every queue, in a few seconds at most; never raises for one that can't be seen."""
