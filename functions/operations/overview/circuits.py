"""The remote services that operators see: their circuits, and the calls in flight where these are limited."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.ramp import limit_of
from functions.pattern.shares import live


class CircuitView(BaseModel):
    """The circuit of a remote service, and how many of its calls may be in flight, and are, in all instances.

    `limit` is the lower one of `at_once`, which is set, and `ramp`, which grows after an outage. Null: none.
    Instances say every few seconds what is `in_flight`, and how many places they have `wanted`.
    """

    service: str
    state: BreakerState
    since: datetime
    failures: int
    probe_at: datetime | None
    last_error: str | None
    at_once: int | None
    ramp: int | None
    limit: int | None
    in_flight: int | None
    wanted: int | None

    @classmethod
    def of(cls, record: BreakerRecord, now: datetime) -> CircuitView:
        """Show a record as of `now`."""
        limit, shares = limit_of(record, record.at_once), live(record.shares, now)
        return cls(
            service=record.service,
            state=record.state,
            since=record.since,
            failures=record.failures,
            probe_at=record.probe_at,
            last_error=record.last_error,
            at_once=record.at_once,
            ramp=record.ramp,
            limit=limit,
            in_flight=None if limit is None else sum(share.in_flight for share in shares),
            wanted=None if limit is None else sum(share.wanted for share in shares),
        )
