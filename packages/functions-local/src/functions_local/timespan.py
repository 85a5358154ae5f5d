"""Reads .NET TimeSpan texts, which host.json and timer schedules use for durations."""

from __future__ import annotations

import re
from datetime import timedelta

_TIMESPAN = re.compile(
    r"(?:(?P<days>\d+)\.)?(?P<hours>\d{1,2}):(?P<minutes>\d{2}):(?P<seconds>\d{2}(?:\.\d{1,7})?)"
)


def parse_timespan(text: str) -> timedelta:
    """Read `[d.]hh:mm:ss[.fffffff]`.

    Raises ValueError, naming the text, when it has another form.
    """
    match = _TIMESPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration of the form [d.]hh:mm:ss")
    return timedelta(
        days=int(match["days"] or 0),
        hours=int(match["hours"]),
        minutes=int(match["minutes"]),
        seconds=float(match["seconds"]),
    )
