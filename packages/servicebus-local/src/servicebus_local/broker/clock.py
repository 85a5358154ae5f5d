"""The broker's clock: milliseconds since 1970 UTC, as locks, times to live and annotations are kept."""

from __future__ import annotations

import time

#: Service Bus' end of time, 9999-12-31: what expires behind it never does.
END_OF_TIME_MS = 253402300799999


def now_ms() -> int:
    """Return the time of day in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000
