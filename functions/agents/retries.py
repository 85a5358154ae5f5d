"""How long to wait before a remote service is called again."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

_FIRST_SECONDS = 0.2
_MOST_SECONDS = 10.0
_MOST_ATTEMPTS_DOUBLED = 16


def backoff_seconds(attempt: int, random: Random) -> float:
    """Give the wait after failed attempt `attempt` (from 1): exponential, with full jitter.

    Source: Amazon Builders' Library, "Timeouts, retries and backoff with jitter". A quarter of the
    bound is always waited, so that retries are never immediate.
    """
    bound = min(_MOST_SECONDS, _FIRST_SECONDS * 2.0 ** min(attempt - 1, _MOST_ATTEMPTS_DOUBLED))
    return bound / 4 + random.random() * bound * 3 / 4


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read a `Retry-After` header (RFC 9110 §10.2.3): seconds or an HTTP date; None when unusable."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
