"""How long to wait before a remote service is called again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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


class Turns:
    """The turns that one instance has given, one after the other."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._last: datetime | None = None

    def next(self, now: datetime, pace: float) -> datetime:
        """Return the next turn where `pace` calls a second end: in a second at least, in a minute at most.

        Twice as many come as have a place, so that no place is empty. The pace is at least 0.5.
        """
        soonest, longest = now + timedelta(seconds=1), timedelta(seconds=60)
        last = soonest if self._last is None else max(self._last, soonest)
        self._last = last + timedelta(seconds=1 / (2 * max(pace, 0.5)))
        if self._last <= now + longest:
            return self._last
        self._last = now + longest  # very many wait: they are spread over the time until then
        return now + longest * (0.5 + self._random.random() / 2)
