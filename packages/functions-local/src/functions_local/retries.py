"""The delays of a function's retry policy."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from functions_local.app import RetryPolicy, RetryStrategy


def retry_delay(policy: RetryPolicy, count: int) -> timedelta:
    """Return the delay before retry number `count`, counted from 0."""
    match policy.strategy:
        case RetryStrategy.FIXED_DELAY:
            return policy.first_delay
        case RetryStrategy.EXPONENTIAL_BACKOFF:
            # The exponent is bounded to prevent an overflow; the longest delay applies long before that.
            return min(policy.first_delay * (1 << min(count, 30)), policy.longest_delay)
        case _:
            assert_never(policy.strategy)
