"""I2, one effect, I3, net effect, and I6, order: the ledger of the payment service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.rows import TaskRows
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.remotes.ledger import CallDirection, Effect, PaymentCall


def one_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find orders that were paid or undone more than once, and keys that do not belong to the effect."""
    for order in evidence.plan.scenarios:
        calls = evidence.calls_of(order)
        for direction in CallDirection:
            times = len(_performed(calls, direction))
            if times > 1:
                yield Violation(Invariant.ONE_EFFECT, order, f"'{direction}' was performed {times} times")
        births = {call.key.partition("/")[0] for call in calls}
        for key in {call.key for call in calls if not _belongs(call, order)}:
            yield Violation(Invariant.ONE_EFFECT, order, f"called under the key '{key}'")
        if len(births) > 1:
            yield Violation(Invariant.ONE_EFFECT, order, f"called under the births {sorted(births)}")


def _belongs(call: PaymentCall, order: str) -> bool:
    return re.fullmatch(rf"{order}\.[0-9a-f]{{8}}/payment/{call.direction}", call.key) is not None


def net_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find final states that the ledger contradicts."""
    for order, rows in evidence.tasks.items():
        if rows.task is None:
            continue
        calls = evidence.calls_of(order)
        done, undone = _performed(calls, CallDirection.DO), _performed(calls, CallDirection.UNDO)
        match rows.task.state:
            case "Processed" if not done:
                yield Violation(Invariant.NET_EFFECT, order, "Processed, but never paid")
            case "Processed" if undone:
                yield Violation(Invariant.NET_EFFECT, order, "Processed, but its payment was undone")
            case "Compensated" if calls and not undone:
                yield Violation(Invariant.NET_EFFECT, order, "Compensated, but the service knows no undo")
            case "Compensated" if done and _time(done[-1]) > _time(undone[0]):
                yield Violation(Invariant.NET_EFFECT, order, "Compensated, but paid after its undo")


def order_of_calls(evidence: Evidence) -> Iterator[Violation]:
    """Find calls that came before the record that they belong to."""
    for order, rows in evidence.tasks.items():
        for call in evidence.calls_of(order):
            allowed_from = (
                _undo_decided_at(rows) if call.direction is CallDirection.UNDO else _dispatched_at(rows)
            )
            if allowed_from is None or call.arrived < allowed_from - _GRAIN:
                what = f"'{call.direction}' arrived {call.arrived:%X.%f}, recorded {allowed_from or 'never'}"
                yield Violation(Invariant.ORDER, order, what)


#: Times come from processes of one machine, in microseconds; their rounding may differ.
_GRAIN = timedelta(milliseconds=5)


def _performed(calls: list[PaymentCall], direction: CallDirection) -> list[PaymentCall]:
    performed = [call for call in calls if call.direction is direction and call.effect is Effect.PERFORMED]
    return sorted(performed, key=_time)


def _time(call: PaymentCall) -> datetime:
    return call.carried_out or call.arrived


def _undo_decided_at(rows: TaskRows) -> datetime | None:
    """When the last epoch of direction `do` ended; None when the task was never undone."""
    if rows.task is None or rows.task.direction != "undo":
        return None
    return max((epoch.ended_at for epoch in rows.history if epoch.direction == "do"), default=None)


def _dispatched_at(rows: TaskRows) -> datetime | None:
    """When a step was first recorded as running; None when it never was."""
    steps = [step for epoch in rows.history for step in epoch.steps] + list(rows.steps)
    return min((step.started_at for step in steps if step.started_at is not None), default=None)
