"""How long to wait before a service is called again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.agents.tries import backoff_seconds, retry_after_seconds
from functions.pattern.retry import Retry
from tests.fakes.clock import START


def _random(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - repeatable, and no secret


@given(attempt=st.integers(1, 10_000), seed=st.integers())
def test_backoff_grows_within_bounds(attempt: int, seed: int) -> None:
    """It doubles up to ten seconds, and is never so short that retries are immediate."""
    bound = 0.2 * 2 ** (attempt - 1) if attempt < 7 else 10
    assert bound / 4 <= backoff_seconds(attempt, _random(seed), Retry()) <= bound


def test_backoff_is_spread() -> None:
    """Callers that failed together do not come back together."""
    assert len({backoff_seconds(3, _random(seed), Retry()) for seed in range(20)}) == 20


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7),
        (" 7 ", 7),
        ("0", 0),
        ("Sat, 21 Nov 2026 10:00:10 GMT", 9.876544),
        ("Sat, 21 Nov 2026 10:00:10 -0000", 9.876544),
        ("Sat, 21 Nov 2026 12:00:10 +0200", 9.876544),
        ("Sat, 21 Nov 2026 09:59:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("²", None),
        ("Sat, 21 Nov 2026 99999999999999999999:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_as_http_has_it(header: str | None, seconds: float | None) -> None:
    """Seconds or a date (RFC 9110 §10.2.3); a date that is over asks for nothing, rubbish is ignored."""
    assert retry_after_seconds(header, START) == seconds


@given(st.text(st.characters(codec="latin-1")) | st.from_regex(r"\w{3}, \d+ Nov \d+ \d+:\d+:\d+ [+-]?\d+"))
def test_no_header_can_break_the_retries(header: str) -> None:
    """Whatever a service sends, it is a time to wait or nothing."""
    seconds = retry_after_seconds(header, START)
    assert seconds is None or seconds >= 0
