"""I15, cancelled: what a caller cancelled is undone, once, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.rows import CHILD, RawTask
from tests.chaos.invariants.violations import Invariant, Violation

CANCELLED = "cancelled"


def cancelled(evidence: Evidence) -> Iterator[Violation]:
    """Find cancels that were taken and came to nothing, or that nobody asked for.

    A task that is a step is cancelled by the one that it is a step of.
    """
    may_be = {each.id for each in evidence.plan.orders if each.cancelled is not None}
    for order, rows in evidence.tasks.items():
        times = sum(epoch.ended_by == CANCELLED for epoch in rows.history)
        if times and order not in may_be and not order.startswith(CHILD):
            yield Violation(Invariant.CANCELLED, order, "cancelled, though its caller did not ask for it")
        if order in evidence.cancelled and not _is_undone(rows.task):
            what = f"its cancel was answered 202, but it is {rows.task.state if rows.task else 'missing'}"
            yield Violation(Invariant.CANCELLED, order, what)
        if times > 1:
            yield Violation(Invariant.CANCELLED, order, f"cancelled {times} times")


def _is_undone(task: RawTask | None) -> bool:
    """Tell whether the task is undone, or its undo failed for good."""
    return task is not None and task.direction == "undo" and task.state in {"Compensated", "Error"}
