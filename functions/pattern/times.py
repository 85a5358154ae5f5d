"""Times that come from outside: with a zone, told in UTC, and of years that every row and clock can hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def days(number: float) -> float:
    """Give the seconds of so many days, as limits of steps are written."""
    return timedelta(days=number).total_seconds()


def _in_utc(time: datetime) -> datetime:
    try:
        told = time.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time from 1970 to 9999, UTC") from None
    if told < _EARLIEST:
        raise ValueError("must be a time from 1970 to 9999, UTC")
    return told


UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]
