"""Times as Durable history writes them: UTC with seven fractional digits, "2026-11-21T10:00:00.1234560Z"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def to_text(moment: datetime) -> str:
    """Write an aware time as history has it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "0Z"


def now_text() -> str:
    """Write the present time as history has it."""
    return to_text(datetime.now(UTC))


def from_text(text: str) -> datetime:
    """Read an ISO 8601 time; one without a zone is taken as UTC. Raises ValueError if it is none."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def to_timespan(duration: timedelta) -> str:
    """Write a duration as a .NET TimeSpan, "d.hh:mm:ss.fffffff"."""
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{duration.days}.{hours:02}:{minutes:02}:{seconds:02}.{duration.microseconds:06}0"
