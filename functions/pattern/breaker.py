"""The record of a circuit breaker and the rules by which it changes: pure, and time is an argument.

Source: the Circuit Breaker pattern of the Azure Architecture Center.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum

#: An error's text is shown to operators; its beginning is enough.
_MOST_ERROR_CHARACTERS = 500


class BreakerState(StrEnum):
    """Whether a remote service is called."""

    #: It is called.
    CLOSED = "closed"
    #: It is left alone.
    OPEN = "open"
    #: It is left alone but for one call, the probe, which shows whether it is back.
    HALF_OPEN = "half-open"


class Verdict(Enum):
    """What may be done about a remote service now."""

    #: Call it.
    CALL = "call"
    #: Call it if nobody else does: it is time for a probe.
    PROBE = "probe"
    #: Fail fast.
    LEAVE_ALONE = "leave alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """After how many `failures` in a row a service is left alone, and for how long.

    A prober that has not told the outcome after as long a time has lost its right.
    """

    failures: int
    open_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRecord:
    """How one remote service is doing; times are UTC.

    `since` is when it began to be left alone, however many probes have failed meanwhile, or when it was
    well again. `failures` are those in a row. Unless the breaker is closed, anybody may probe from
    `probe_at` on.
    """

    service: str
    state: BreakerState
    since: datetime
    failures: int = 0
    probe_at: datetime | None = None
    last_error: str | None = None

    def verdict(self, now: datetime) -> Verdict:
        """Tell what may be done at `now`."""
        if self.probe_at is None:
            return Verdict.CALL
        return Verdict.PROBE if now >= self.probe_at else Verdict.LEAVE_ALONE


def new_record(service: str, now: datetime) -> BreakerRecord:
    """Make the record of a service of which nothing is known: it is called."""
    return BreakerRecord(service=service, state=BreakerState.CLOSED, since=now)


def as_probe(record: BreakerRecord, now: datetime, policy: BreakerPolicy) -> BreakerRecord:
    """Let one call through, which must come to its end in time."""
    return replace(record, state=BreakerState.HALF_OPEN, probe_at=now + policy.open_for)


def after_success(record: BreakerRecord, now: datetime) -> BreakerRecord:
    """Count a call that the service answered, be it with a refusal."""
    if record.state is not BreakerState.CLOSED:
        return replace(record, state=BreakerState.CLOSED, since=now, failures=0, probe_at=None)
    return replace(record, failures=0) if record.failures else record


def after_failure(record: BreakerRecord, error: str, now: datetime, policy: BreakerPolicy) -> BreakerRecord:
    """Count a call that failed: one too many in a row, or the probe, makes the service be left alone."""
    failures = record.failures + 1
    counted = replace(record, failures=failures, last_error=error[:_MOST_ERROR_CHARACTERS])
    closed = record.state is BreakerState.CLOSED
    if closed and failures < policy.failures:
        return counted
    since = now if closed else record.since
    return replace(counted, state=BreakerState.OPEN, since=since, probe_at=now + policy.open_for)
