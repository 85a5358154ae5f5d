"""I1, no loss, and I10, atomic birth."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.evidence import Evidence
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.rows import names


def no_loss(evidence: Evidence) -> Iterator[Violation]:
    """Look for what was accepted, or put on the queue, and is nowhere; and for what nobody sent."""
    for order in evidence.accepted:
        rows = evidence.tasks.get(order)
        if (rows is None or rows.task is None) and not _is_told_as_lost(order, evidence):
            yield Violation(Invariant.NO_LOSS, order, "answered 202, but there is no task and no alert")
    for order, answer in evidence.refused.items():
        yield Violation(Invariant.NO_LOSS, order, f"refused, though nothing is wrong with it: {answer}")
    for order in evidence.tasks.keys() - evidence.plan.fates.keys():
        yield Violation(Invariant.NO_LOSS, order, "there is a task that nobody submitted")
    kept = {row.get("MessageID") for row in evidence.rejected}
    for poison in evidence.plan.poison:
        if poison.id not in kept:
            yield Violation(Invariant.NO_LOSS, None, f"message {poison.id} is not in table Rejected")


def atomic_birth(evidence: Evidence) -> Iterator[Violation]:
    """Look for tasks that were not whole."""
    for order in evidence.sightings.not_whole:
        yield Violation(Invariant.ATOMIC_BIRTH, order, "seen without its order, steps or one index row")
    for order, rows in evidence.tasks.items():
        if not rows.is_whole:
            there = f"order {rows.has_order}, {len(rows.steps)} steps, index rows {list(rows.index)}"
            yield Violation(Invariant.ATOMIC_BIRTH, order, f"is not whole at the end: {there}")


def _is_told_as_lost(order: str, evidence: Evidence) -> bool:
    return names(evidence.rejected, order) and any(order in alert.text for alert in evidence.alerts)
