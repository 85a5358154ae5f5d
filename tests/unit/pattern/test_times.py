"""Times in messages are as RFC 3339 writes them, of years that no zone leads out of, told in UTC."""

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
        "2026-11-22T24:00:00Z",
        "2026-02-30T12:00:00Z",
        "1999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-00:01",
        "10000-01-01T00:00:00Z",
    ],
)
def test_time_that_no_row_can_hold_is_refused(text: str) -> None:
    """Without a zone, of no day, or of a year that a zone could lead out of."""
    with pytest.raises(ValidationError):
        _TIMES.validate_json(f'"{text}"')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2000-01-01T00:00:00Z", datetime(2000, 1, 1, tzinfo=UTC)),
        ("2026-11-22T14:30:00+02:30", datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ("8999-12-31T23:59:59.999999-00:01", datetime(9000, 1, 1, 0, 0, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_time_is_told_in_utc(text: str, told: datetime) -> None:
    """Whatever zone it came in."""
    read = _TIMES.validate_json(f'"{text}"')
    assert (read, read.tzinfo) == (told, UTC)
