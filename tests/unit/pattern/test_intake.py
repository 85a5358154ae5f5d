"""Callers are asked to wait when too much waits, for too long, or both; old figures close nothing."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.pattern.intake import IntakeLimits, IntakeState, Line, measured, read_intake
from tests.fakes.tasks import after

LIMITS = IntakeLimits(age=timedelta(minutes=10), waiting=1_000)


@pytest.mark.parametrize(
    ("count", "late", "age", "retry_after"),
    [
        (0, 0, None, 0),
        (1_000, 0, 600, 0),
        (1_001, 0, 1, 16),
        (600, 401, 1, 16),
        (21, 0, 601, 16),
        (3_000, 0, 1, 45),
        (10**7, 0, 1, 300),
    ],
)
def test_retry_after_grows_with_what_waits(
    count: int, late: int, age: float | None, retry_after: int
) -> None:
    """Between 15 seconds and 5 minutes; tasks that nobody has claimed wait, too."""
    since = None if age is None else after(1_000 - age)
    assert measured(Line(count, since), late, after(1_000), LIMITS).retry_after == retry_after


def test_what_was_measured_long_ago_closes_nothing() -> None:
    """The timer may not run any more, and the line be gone."""
    intake = measured(Line(5_000, after(0)), 0, after(10), LIMITS)
    assert (intake.closed_for(after(70)), intake.closed_for(after(70.1))) == (75, 0)
    assert replace(intake, retry_after=0).closed_for(after(10)) == 0
    # Message from the future has not waited.
    assert measured(Line(30, after(2)), 0, after(0), LIMITS).oldest_seconds == 0


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.floats(0, 10**7))
def test_row_comes_back(count: int, late: int, age: float) -> None:
    """With whatever the table adds; what can't be read is nothing."""
    intake = measured(Line(count, after(-age)), late, after(0), LIMITS)
    assert read_intake({**asdict(intake), "Timestamp": "x"}) == intake
    assert isinstance(intake, IntakeState)
    assert read_intake({"at": "never"}) is None
    assert read_intake(asdict(intake) | {"at": "2026-11-21T10:00:00"}) is None
    assert read_intake(None) is None
