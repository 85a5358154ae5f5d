"""Times and durations as .NET writes them: in host.json, in timer schedules and in Durable history.

A time in history is UTC with seven fractional digits, "2026-11-21T10:00:00.1234560Z".
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_TIMESPAN = re.compile(
    r"(?:(?P<days>\d+)\.)?(?P<hours>\d{1,2}):(?P<minutes>\d{2}):(?P<seconds>\d{2}(?:\.\d{1,7})?)"
)


def parse_timespan(text: str) -> timedelta:
    """Read a TimeSpan, `[d.]hh:mm:ss[.fffffff]`. Raises ValueError, naming the text, for any other form."""
    match = _TIMESPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration of the form [d.]hh:mm:ss")
    return timedelta(
        days=int(match["days"] or 0),
        hours=int(match["hours"]),
        minutes=int(match["minutes"]),
        seconds=float(match["seconds"]),
    )


def to_timespan(duration: timedelta) -> str:
    """Write a duration as a TimeSpan, "d.hh:mm:ss.fffffff"."""
    minutes, seconds = divmod(duration.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{duration.days}.{hours:02}:{minutes:02}:{seconds:02}.{duration.microseconds:06}0"


def to_text(moment: datetime) -> str:
    """Write an aware time in the format of history."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "0Z"


def now_text() -> str:
    """Write the current time in the format of history."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_to_the_second(seconds)}.{nanoseconds // 1000:06}0Z"


@lru_cache(maxsize=2)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def from_text(text: str) -> datetime:
    """Read an ISO 8601 time; one without a zone is UTC. Raises ValueError for any other text."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
