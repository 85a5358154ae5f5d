"""A clock that stands still until it is told to go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

#: When every test's time begins; the microseconds see to it that none are lost on the way.
START = datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)


class FakeClock:
    """Tells the time that the test has set, in UTC."""

    def __init__(self, now: datetime = START) -> None:
        self._now = now

    def now(self) -> datetime:
        """Give the time now, in UTC."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self._now += timedelta(seconds=seconds)
