"""How the calls of a remote service that is back after an outage return: gradually, over all instances.

The ramp is a limit of the calls in flight that grows: 1, 2, 4 and so on.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.breaker import BreakerPolicy, BreakerRecord
from functions.pattern.shares import live

#: A ramp that has grown so wide bounds nothing any more.
_WIDEST = 256

#: Intervals: without as many calls as the ramp allows, there is no crowd that waits.
_MOST_IDLE = 12
#: Intervals after which the circuit breaker alone judges the service: one that fails now and then stays so.
_MOST = 60


def limit_of(record: BreakerRecord, at_once: int | None) -> int | None:
    """Tell how many calls may be in flight over all instances, with `at_once` set; None: any number."""
    return min((each for each in (at_once, record.ramp) if each is not None), default=None)


def is_reached(record: BreakerRecord, now: datetime) -> bool:
    """Tell whether instances have work for more calls than may be in flight."""
    limit = limit_of(record, record.at_once)
    return limit is not None and sum(share.wanted for share in live(record.shares, now)) > limit


def grown(
    record: BreakerRecord,
    now: datetime,
    policy: BreakerPolicy,
    *,
    at_once: int | None,
    succeeded_at: datetime | None,
    seen_for: timedelta,
) -> BreakerRecord:
    """Have a ramp grow, or end: once an interval, if it was needed, and a call has succeeded since.

    `succeeded_at` is the latest success that an instance has seen, and `seen_for` how long it has seen the
    ramp as it is: when another says that it changed may be by a wrong clock.
    """
    if record.ramp is None:
        return record
    interval = policy.ramp_interval
    if now - record.since >= _MOST * interval:
        return replace(record, ramp=None, ramp_at=None)
    if sum(share.wanted for share in live(record.shares, now)) < record.ramp:
        return replace(record, ramp=None, ramp_at=None) if seen_for >= _MOST_IDLE * interval else record
    if seen_for < interval or succeeded_at is None or succeeded_at < now - seen_for:
        return record
    wider = record.ramp * 2
    is_over = wider >= (_WIDEST if at_once is None else min(at_once, _WIDEST))
    return replace(record, ramp=None if is_over else wider, ramp_at=None if is_over else now)


def set_back(record: BreakerRecord, now: datetime) -> BreakerRecord:
    """Have a ramp narrow after a call that failed."""
    if record.ramp is None or record.ramp == 1:
        return record
    return replace(record, ramp=record.ramp // 2, ramp_at=now)
