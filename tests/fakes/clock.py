"""A clock that stands still until a test advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

#: The start time of every test; its microseconds show whether any are lost.
START = datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)


class FakeClock:
    """Returns the time that the test has set, in UTC."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self._now

    def nanoseconds(self) -> int:
        """Return the nanoseconds since the start."""
        return (self._now - START) // timedelta(microseconds=1) * 1_000

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`."""
        self._now += timedelta(seconds=seconds)
