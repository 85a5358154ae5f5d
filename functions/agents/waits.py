"""How long to wait before a remote service is called again."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

from functions.pattern.retry import Retry


def backoff_seconds(attempt: int, random: Random, retry: Retry) -> float:
    """Give the wait after failed attempt `attempt` (from 1): exponential, with jitter.

    Source: Amazon Builders' Library, "Timeouts, retries and backoff with jitter". At least a quarter of the
    bound is waited, so that retries are never immediate.
    """
    bound = retry.longest_wait(attempt)
    return bound / 4 + random.random() * bound * 3 / 4


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read a `Retry-After` header (RFC 9110 §10.2.3): seconds or an HTTP date; None when unusable."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header.strip())
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
