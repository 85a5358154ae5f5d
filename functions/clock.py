"""The clock of the machine, the one place where time is read."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """Tells the machine's time in UTC."""

    def now(self) -> datetime:
        """Give the time now, in UTC."""
        return datetime.now(UTC)
