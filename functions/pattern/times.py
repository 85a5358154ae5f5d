"""Times that come from outside: as RFC 3339 has them, told in UTC, of years that no zone leads out of."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, WithJsonSchema

#: As schemas show it, too. Any row and any clock can hold the years, in whatever zone.
TIME_PATTERN = r"^[2-8]\d{3}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
_TIME = re.compile(TIME_PATTERN, re.ASCII)


def _read(time: object) -> object:
    if not isinstance(time, str):
        return time
    if not _TIME.fullmatch(time):
        raise ValueError("must be a time such as 2026-11-21T12:00:00Z, of the years 2000 to 8999")
    return datetime.fromisoformat(time)


def days(number: float) -> float:
    """Give the seconds of so many days, as limits of steps are written."""
    return timedelta(days=number).total_seconds()


def _in_utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


#: A time in a row: one without a zone can't be compared to any other.
ZonedTime = Annotated[datetime, AwareDatetime]

UtcTime = Annotated[
    AwareDatetime,
    BeforeValidator(_read),
    AfterValidator(_in_utc),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": TIME_PATTERN}),
]
