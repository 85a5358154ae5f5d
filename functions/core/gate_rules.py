"""The gate of a remote service or of an Agent's queue: circuit, hold, and release of deferred steps.

A step behind a closed gate is deferred and has an index row. One release chain per gate sends one scheduled
message at a time. It releases deferred steps in waiting order when the circuit half-opens or a hold ends.
All times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import AwareDatetime

from functions.core.record import QUEUE_PREFIX, RuleSettings

#: The error of a step whose Agent did not serve by its deadline, or had not reached its request.
UNREACHED = "the Agent had not reached the request"
#: Steps that one interval releases at most.
_MOST_RELEASED = 100
#: Holds that the row of a gate keeps.
_MOST_HOLDS = 150
#: The newest holds of them that keep their reason.
_MOST_REASONS = 10
#: Time after a lag was recorded in which it decides on a deadline.
_LAG_VALID_FOR = timedelta(seconds=60)
#: Time for which the record of a lag is kept.
_LAG_KEPT_FOR = timedelta(minutes=3)
#: The shortest time between two records of a lag, except the newest.
_LAGS_APART = timedelta(seconds=5)


class Circuit(StrEnum):
    """Which calls of a service pass: all, none, or the released ones."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A time in which an operator kept a gate closed. `end` is None for the current hold."""

    start: AwareDatetime
    reason: str
    who: str
    end: AwareDatetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The newest request that an Agent had answered at the time `at` was sent at `up_to`."""

    at: AwareDatetime
    up_to: AwareDatetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The state of one gate, shared by all instances.

    `amount` is the number of steps that the last interval released. `openings` counts openings of the
    circuit without a success in between. Message `link` of the release chain is due at `next_at`; another one
    has no effect. One instance has at most `calls_at_once` calls under way; None: no limit.

    Only for the queue of an Agent: `failures` counts overdue requests in a row without a reply, the first
    deadline of which is `failing_since`. The last absence is from `away_from`, that deadline or the opening,
    to `away_until`, the first reply to a probe. `served` records how far the Agent had come while behind.
    """

    name: str
    circuit: Circuit = Circuit.CLOSED
    changed_at: AwareDatetime | None = None
    openings: int = 0
    holds: tuple[Hold, ...] = ()
    calls_at_once: int | None = None
    amount: int = 0
    has_succeeded: bool = True
    link: int = 1
    next_at: AwareDatetime | None = None
    failures: int = 0
    failing_since: AwareDatetime | None = None
    away_from: AwareDatetime | None = None
    away_until: AwareDatetime | None = None
    served: tuple[Served, ...] = ()

    @property
    def is_away(self) -> bool:
        """Return whether no probe has been answered since the circuit opened."""
        return self.circuit is Circuit.OPEN or (self.circuit is Circuit.HALF_OPEN and self.openings > 0)

    @property
    def hold(self) -> Hold | None:
        """Return the current hold."""
        return current_hold(self.holds)

    def blocks(self, *, is_released: bool) -> bool:
        """Return whether a step must not start now."""
        if self.hold is not None or self.circuit is Circuit.OPEN:
            return True
        return self.circuit is Circuit.HALF_OPEN and not is_released


def current_hold(holds: tuple[Hold, ...]) -> Hold | None:
    """Return the hold that has not ended; `holds` are in the order of time."""
    return holds[-1] if holds and holds[-1].end is None else None


def record_failure(gate: Gate, began_at: datetime, now: datetime, settings: RuleSettings) -> Gate:
    """Open the circuit after a failed call, unless the call began before the circuit last changed."""
    wait: timedelta = min(settings.first_opening * (1 << min(gate.openings, 20)), settings.longest_opening)
    return _open_circuit(gate, began_at, now, wait)


def record_success(gate: Gate, began_at: datetime) -> Gate:
    """Record the first success after the circuit half-opened; from then on the released amount doubles."""
    is_older = began_at < (gate.changed_at or began_at)
    if gate.circuit is not Circuit.HALF_OPEN or gate.has_succeeded or is_older:
        return gate
    return replace(gate, has_succeeded=True, openings=0)


def _open_circuit(gate: Gate, began_at: datetime, now: datetime, wait: timedelta) -> Gate:
    if gate.circuit is Circuit.OPEN or began_at < (gate.changed_at or began_at):
        return gate
    return replace(
        gate,
        circuit=Circuit.OPEN,
        changed_at=now,
        openings=gate.openings + 1,
        amount=0,
        has_succeeded=False,
        link=gate.link + 1,
        next_at=now + wait,
        away_from=gate.away_from if gate.is_away else now,
        away_until=None,
    )


def is_unreached(gate: Gate, sent_at: datetime, ends_at: datetime, settings: RuleSettings) -> bool:
    """Return whether the Agent was away while a request was under way, or had not reached the request.

    `sent_at` and `ends_at` are the start and the deadline of the request. The last lag before the deadline
    decides, since younger requests may be answered later; otherwise the first one after it. The times may be
    of different clocks, so a request within the allowed skew counts as not reached.
    """
    if gate.is_away or _was_held_or_away(gate, sent_at, ends_at):
        return True
    valid = [each for each in gate.served if each.at >= ends_at - _LAG_VALID_FOR]
    before = [each for each in valid if each.at <= ends_at - settings.skew]
    return any(each.up_to < sent_at + settings.skew for each in before[-1:] or valid[:1])


def _was_held_or_away(gate: Gate, sent_at: datetime, ends_at: datetime) -> bool:
    """Return whether a request was under way in a hold or before its Agent's return; it may be a probe."""
    if any(hold.start < ends_at and (hold.end is None or hold.end > sent_at) for hold in gate.holds):
        return True
    if gate.away_from is None or gate.away_until is None:
        return False
    return gate.away_from <= ends_at and sent_at <= gate.away_until


def count_overdue(
    gate: Gate, sent_at: datetime, ends_at: datetime, now: datetime, settings: RuleSettings
) -> Gate:
    """Count a request that is overdue without a reply, or close the gate if its Agent had not reached it."""
    if gate.is_away:
        return record_failure(gate, sent_at, now, settings)
    if _was_held_or_away(gate, sent_at, ends_at):
        return gate
    if is_unreached(gate, sent_at, ends_at, settings):
        return close_until_probe(gate, sent_at, now, settings)
    since = min(ends_at, gate.failing_since or ends_at)
    counted = replace(gate, failures=gate.failures + 1, failing_since=since)
    after = counted if counted.failures < settings.open_after else record_failure(counted, now, now, settings)
    return after if after is counted else replace(after, away_from=since)


def close_until_probe(gate: Gate, sent_at: datetime, now: datetime, settings: RuleSettings) -> Gate:
    """Close the gate until the next probe: the Agent serves, but with a lag."""
    return _open_circuit(gate, sent_at, now, settings.probe_interval)


def record_reply(gate: Gate, sent_at: datetime | None, now: datetime) -> Gate:
    """Record a reply. It resets the failures, and the first reply to a probe ends the Agent's absence.

    `sent_at` is None if the request is no longer on record.
    """
    if gate.failures and gate.circuit is not Circuit.OPEN:
        gate = replace(gate, failures=0, failing_since=None)
    after = gate if sent_at is None else record_success(gate, sent_at)
    if after is gate:
        return gate
    after = replace(after, away_until=now)
    return after if after.next_at is not None else replace(after, link=after.link + 1, next_at=now)


def record_lag(gate: Gate, up_to: datetime, now: datetime) -> Gate:
    """Record that the Agent has answered a request that was sent at `up_to`."""
    kept = [each for each in gate.served if each.at >= now - _LAG_KEPT_FOR]
    newest = max([up_to, *(each.up_to for each in kept[-1:])])
    if len(kept) > 1 and kept[-1].at < kept[-2].at + _LAGS_APART:
        kept.pop()
    return replace(gate, served=(*kept, Served(at=now, up_to=newest)))


def start_hold(gate: Gate, reason: str, who: str, now: datetime) -> Gate:
    """Close the gate for an operator; a gate with a hold stays as it is."""
    if gate.hold is not None:
        return gate
    kept = (*gate.holds, Hold(start=now, reason=reason, who=who))[-_MOST_HOLDS:]
    older = (replace(each, reason="", who="") for each in kept[:-_MOST_REASONS])
    return replace(gate, holds=(*older, *kept[-_MOST_REASONS:]), link=gate.link + 1, next_at=None)


def end_hold(gate: Gate, now: datetime, since: datetime | None = None) -> Gate:
    """End an operator's hold, or only the one of `since`, and start the release chain with one step."""
    if gate.hold is None or since not in {None, gate.hold.start}:
        return gate
    is_open = gate.circuit is Circuit.OPEN
    return replace(
        gate,
        circuit=gate.circuit if is_open else Circuit.HALF_OPEN,
        changed_at=gate.changed_at if is_open else now,
        holds=(*gate.holds[:-1], replace(gate.hold, end=now)),
        amount=0,
        has_succeeded=False,
        link=gate.link + 1,
        next_at=now,
    )


def next_link(gate: Gate, now: datetime, settings: RuleSettings, *, is_waiting: bool) -> Gate:
    """Return the gate after a message of its release chain, which releases `amount` steps now.

    `is_waiting`: steps wait behind the gate. The circuit of a queue closes only after a reply to a probe.
    """
    if gate.circuit is Circuit.OPEN and gate.next_at is not None and now < gate.next_at:
        return gate
    is_probing = gate.name.startswith(QUEUE_PREFIX) and gate.openings > 0
    changed_at = gate.changed_at if gate.circuit is Circuit.HALF_OPEN else now
    half_open = replace(gate, circuit=Circuit.HALF_OPEN, changed_at=changed_at, link=gate.link + 1)
    if not is_waiting and is_probing:
        return replace(half_open, next_at=None)
    if not is_waiting:
        return replace(gate, circuit=Circuit.CLOSED, amount=0, link=gate.link + 1, next_at=None)
    return replace(
        half_open,
        amount=min(_MOST_RELEASED, gate.amount * 2 or 1) if gate.has_succeeded else 1,
        next_at=now + (settings.probe_interval if is_probing else settings.release_interval),
    )
