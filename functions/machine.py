"""What the machine gives: the time, ids that nobody else has, and when garbage is collected."""

from __future__ import annotations

import gc
import uuid
from datetime import UTC, datetime

#: After so many new objects, and older ones after so many younger collections.
_THRESHOLDS = (100_000, 50, 100)


class SystemClock:
    """Gives the machine's time."""

    def now(self) -> datetime:
        """Give the time now, in UTC."""
        return datetime.now(UTC)


def new_id() -> str:
    """Make an id that nobody else has: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def collect_garbage_rarely() -> None:
    """Spare what start has made from garbage collection, and collect what is made later less often.

    An order leaves thousands of short-lived objects, nearly all of them freed without it: by Python's own
    thresholds, a busy process spent a seventh of its time on looking for cycles (docs/performance.md).
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
