"""Times in messages are those that every row and every clock can hold, told in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from functions.pattern.times import UtcTime

_TIMES = TypeAdapter(UtcTime)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-22T12:00:00",
        "1969-12-31T23:59:59.999999Z",
        "1970-01-01T00:00:00+14:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-00:01",
        "10000-01-01T00:00:00Z",
    ],
)
def test_time_that_no_row_can_hold_is_refused(text: str) -> None:
    """Without a zone, before 1970, or after 9999 in UTC, whatever its own zone says."""
    with pytest.raises(ValidationError):
        _TIMES.validate_json(f'"{text}"')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2026-11-22T14:30:00+02:30", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_time_is_told_in_utc(text: str, told: datetime) -> None:
    """Whatever zone it came in."""
    read = _TIMES.validate_json(f'"{text}"')
    assert (read, read.tzinfo) == (told, UTC)
