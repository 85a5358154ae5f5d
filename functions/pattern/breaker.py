"""The record of a circuit breaker and its rules (Azure Architecture Center, Circuit Breaker pattern)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from functions.pattern.shares import Share
from functions.pattern.texts import bounded

#: An error's text is shown to operators; its beginning is enough.
_MOST_ERROR_BYTES = 500


class BreakerState(StrEnum):
    """The state of a circuit: whether a remote service is called."""

    #: Every call goes through.
    CLOSED = "closed"
    #: No call goes through: each fails fast.
    OPEN = "open"
    #: One call, the probe, goes through and shows whether the service is back; the others fail fast.
    HALF_OPEN = "half-open"


class Verdict(Enum):
    """What may be done with a call of a remote service now."""

    #: Call it.
    CALL = "call"
    #: Call it as the probe, unless another instance does.
    PROBE = "probe"
    #: Do not call it: the call fails at once.
    FAIL_FAST = "fail fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """After how many `failures` in a row a circuit opens, and how long it, or a probe, lasts."""

    failures: int
    open_for: timedelta

    @property
    def ramp_interval(self) -> timedelta:
        """Tell how often the calls of a service that is back may become more."""
        return self.open_for / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRecord:
    """The circuit of one remote service: open or closed `since` then (UTC); `failures` are those in a row.

    Unless it is closed, any instance may probe from `probe_at` on (UTC). After an outage, `ramp` calls may be
    in flight over all instances, which changed at `ramp_at` (UTC). `at_once` is the limit that is set. Where
    there is a limit, instances have their `shares` of it.
    """

    service: str
    state: BreakerState
    since: datetime
    failures: int = 0
    probe_at: datetime | None = None
    last_error: str | None = None
    at_once: int | None = None
    ramp: int | None = None
    ramp_at: datetime | None = None
    shares: tuple[Share, ...] = ()

    def verdict(self, now: datetime, seen_for: timedelta, policy: BreakerPolicy) -> Verdict:
        """Tell what may be done at `now`, where the circuit was seen as it is for so long.

        By that, a probe is due that a wrong clock has put off.
        """
        if self.probe_at is None:
            return Verdict.CALL
        is_due = now >= self.probe_at or seen_for >= policy.open_for
        return Verdict.PROBE if is_due else Verdict.FAIL_FAST


def new_record(service: str, now: datetime) -> BreakerRecord:
    """Make the record of a service of which nothing is known: its circuit is closed."""
    return BreakerRecord(service=service, state=BreakerState.CLOSED, since=now)


def circuit_of(record: BreakerRecord) -> object:
    """Give the circuit alone; limits and shares change more often."""
    return (record.state, record.since, record.probe_at)


def same_circuit(one: BreakerRecord, other: BreakerRecord) -> bool:
    """Tell whether two records of a service have the same circuit."""
    return circuit_of(one) == circuit_of(other)


def is_untouched(record: BreakerRecord) -> bool:
    """Tell whether a record has shares alone: its circuit was never open."""
    return record.state is BreakerState.CLOSED and record.ramp is None and record.last_error is None


def counted_on(record: BreakerRecord, there: BreakerRecord) -> BreakerRecord:
    """Give the newer row of the same circuit what was counted since the row of before."""
    return replace(there, failures=record.failures, last_error=record.last_error)


def shared_on(record: BreakerRecord, there: BreakerRecord) -> BreakerRecord:
    """Give a newer circuit what instances share on the row by now."""
    return replace(record, at_once=there.at_once, shares=there.shares)


def as_probe(record: BreakerRecord, now: datetime, policy: BreakerPolicy) -> BreakerRecord:
    """Let one call through; it must end in time."""
    return replace(record, state=BreakerState.HALF_OPEN, probe_at=now + policy.open_for)


def after_success(record: BreakerRecord, now: datetime) -> BreakerRecord:
    """Count a call that the service answered, even with a refusal."""
    if record.state is not BreakerState.CLOSED:
        closed = replace(record, state=BreakerState.CLOSED, since=now, failures=0, probe_at=None)
        return replace(closed, ramp=1, ramp_at=now)
    return replace(record, failures=0) if record.failures else record


def after_failure(record: BreakerRecord, error: str, now: datetime, policy: BreakerPolicy) -> BreakerRecord:
    """Count a call that failed: the last of too many in a row opens the circuit, and so does a probe."""
    failures = record.failures + 1
    counted = replace(record, failures=failures, last_error=bounded(error, _MOST_ERROR_BYTES))
    closed = record.state is BreakerState.CLOSED
    if closed and failures < policy.failures:
        return counted
    since = now if closed else record.since
    return replace(counted, state=BreakerState.OPEN, since=since, probe_at=now + policy.open_for)
