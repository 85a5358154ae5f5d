"""I2, one effect, I3, net effect, and I6, order: what the payment service's ledger must show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.chaos.evidence import Evidence
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.payments.ledger import Call, Direction, Effect
from tests.chaos.rows import TaskRows


def one_effect(evidence: Evidence) -> Iterator[Violation]:
    """Look for orders that were paid, or undone, more than once, and for keys that are not the effect's."""
    for order in evidence.plan.fates:
        calls = evidence.calls_of(order)
        for direction in Direction:
            times = len(_performed(calls, direction))
            if times > 1:
                yield Violation(Invariant.ONE_EFFECT, order, f"'{direction}' was performed {times} times")
        for key in {call.key for call in calls if call.key != f"{order}/payment/{call.direction}"}:
            yield Violation(Invariant.ONE_EFFECT, order, f"called under the key '{key}'")


def net_effect(evidence: Evidence) -> Iterator[Violation]:
    """Look for ends that the ledger contradicts."""
    for order, rows in evidence.tasks.items():
        if rows.task is None:
            continue
        calls = evidence.calls_of(order)
        done, undone = _performed(calls, Direction.DO), _performed(calls, Direction.UNDO)
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
    """Look for calls that came before the record of what they belong to."""
    for order, rows in evidence.tasks.items():
        for call in evidence.calls_of(order):
            allowed_from = _turned_back_at(rows) if call.direction is Direction.UNDO else _dispatched_at(rows)
            if allowed_from is None or call.arrived < allowed_from - _GRAIN:
                what = f"'{call.direction}' arrived {call.arrived:%X.%f}, recorded {allowed_from or 'never'}"
                yield Violation(Invariant.ORDER, order, what)


#: Times are written by processes of one machine, in microseconds; rounding may differ.
_GRAIN = timedelta(milliseconds=5)


def _performed(calls: list[Call], direction: Direction) -> list[Call]:
    performed = [call for call in calls if call.direction is direction and call.effect is Effect.PERFORMED]
    return sorted(performed, key=_time)


def _time(call: Call) -> datetime:
    return call.carried_out or call.arrived


def _turned_back_at(rows: TaskRows) -> datetime | None:
    """When the last epoch ended in which steps were done; None when the task never turned back."""
    if rows.task is None or rows.task.direction != "undo":
        return None
    return max((epoch.ended_at for epoch in rows.history if epoch.direction == "do"), default=None)


def _dispatched_at(rows: TaskRows) -> datetime | None:
    """When a step was first recorded as running; None when it never was."""
    steps = [step for epoch in rows.history for step in epoch.steps] + list(rows.steps)
    return min((step.started_at for step in steps if step.started_at is not None), default=None)
