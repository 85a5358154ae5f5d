"""NCRONTAB: the same next times as Azure Functions."""

from __future__ import annotations

from datetime import datetime

import pytest

from functions_local.timers.ncrontab import parse_schedule

SECOND = "%Y-%m-%d %H:%M:%S"


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("0 */5 * * * *", "2026-11-21 10:00:00", "2026-11-21 10:05:00"),
        ("0 0 * * * *", "2026-11-21 10:00:01", "2026-11-21 11:00:00"),
        ("0 30 9 * * 1-5", "2026-11-20 09:30:00", "2026-11-23 09:30:00"),
        ("0 30 9 * Jan Mon", "2026-11-20 00:00:00", "2027-01-04 09:30:00"),
        ("0 0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"),
        ("0 0 0 31 * *", "2026-11-01 00:00:00", "2026-12-31 00:00:00"),
        ("0 0 0 13 * 5", "2026-11-14 00:00:00", "2027-08-13 00:00:00"),
        ("*/15 * * * * *", "2026-01-01 00:00:59", "2026-01-01 00:01:00"),
        ("5 * * * *", "2026-01-01 00:05:00", "2026-01-01 01:05:00"),
        ("0 0 0 * * Sun", "2026-11-21 00:00:00", "2026-11-22 00:00:00"),
        ("0 0 17-9/4 * * *", "2026-11-21 09:00:00", "2026-11-21 13:00:00"),
        ("30/10 * * * * *", "2026-11-21 10:00:00", "2026-11-21 10:00:30"),
        ("0,20 59 23 31 12 *", "2026-12-31 23:59:00", "2026-12-31 23:59:20"),
        ("0 0 10,14 * * *", "2026-11-21 10:00:00", "2026-11-21 14:00:00"),
        ("00:00:30", "2026-01-01 00:00:00", "2026-01-01 00:00:30"),
        ("1.02:00:00", "2026-01-01 00:00:00", "2026-01-02 02:00:00"),
    ],
)
def test_next_time(expression: str, after: str, expected: str) -> None:
    """Strictly after the base; lists, ranges, steps and names; day and weekday must both match."""
    found = parse_schedule(expression).next(datetime.strptime(after, SECOND))  # noqa: DTZ007 - schedules count naive UTC
    assert found.strftime(SECOND) == expected


@pytest.mark.parametrize(
    "expression",
    [
        *("", "* * * *", "* * * * * * *", "60 * * * * *", "0 0 24 * * *", "0 0 0 0 * *", "0 0 0 * 13 *"),
        *(
            "0 0 0 * * 7",
            "0 0 0 ? * *",
            "0 0 0 L * *",
            "0 0 0 * * 5#2",
            "*/0 * * * * *",
            "a * * * * *",
            "1- * * * * *",
        ),
        *("00:61", "00:00:00"),
    ],
)
def test_what_azure_refuses_is_refused(expression: str) -> None:
    """Among them cron's 7 for Sunday and Quartz's characters."""
    with pytest.raises(ValueError, match=r"not|has"):
        parse_schedule(expression)


def test_date_that_never_comes_is_an_error() -> None:
    """31 February does not cause an endless loop."""
    with pytest.raises(ValueError, match="never"):
        parse_schedule("0 0 0 31 2 *").next(datetime(2026, 1, 1))  # noqa: DTZ001 - schedules count naive UTC
