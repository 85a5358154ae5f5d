"""I1, no loss, I10, atomic birth, and I14, not vacuous: nothing is missing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.rows import CHILD, names
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.plan.schedule import Scenario, faults_of


def no_loss(evidence: Evidence) -> Iterator[Violation]:
    """Find what was accepted, or sent to the queue, and is nowhere; and what nobody sent."""
    for order in evidence.accepted:
        rows = evidence.tasks.get(order)
        if (rows is None or rows.task is None) and not _is_reported_as_lost(order, evidence):
            yield Violation(Invariant.NO_LOSS, order, "answered 202, but there is no task and no alert")
    for order, answer in evidence.refused.items():
        yield Violation(Invariant.NO_LOSS, order, f"refused, though nothing is wrong with it: {answer}")
    for order in evidence.tasks.keys() - evidence.plan.scenarios.keys():
        if order.startswith(CHILD):
            continue
        yield Violation(Invariant.NO_LOSS, order, "there is a task that nobody submitted")
    kept = {row.get("MessageID") for row in evidence.rejected}
    for poison in evidence.plan.poison:
        if poison.id not in kept:
            yield Violation(Invariant.NO_LOSS, None, f"message {poison.id} is not in table Rejected")


def atomic_creation(evidence: Evidence) -> Iterator[Violation]:
    """Find tasks that were not complete."""
    for order in evidence.observations.incomplete:
        yield Violation(Invariant.ATOMIC_BIRTH, order, "seen without its order, steps or one index row")
    for order, rows in evidence.tasks.items():
        missing = evidence.definitions.missing(rows)
        if not rows.is_complete or missing:
            there = f"order {rows.has_order}, {len(rows.steps)} steps, index rows {list(rows.index)}"
            there += f", without {sorted(missing)}" if missing else ""
            yield Violation(Invariant.ATOMIC_BIRTH, order, f"is not complete at the end: {there}")


def not_vacuous(evidence: Evidence) -> Iterator[Violation]:
    """Find what never affected anything: faults, the watch over the tasks."""
    for fault in sorted(faults_of(evidence.plan)):
        if not evidence.fault_counts.get(fault):
            yield Violation(Invariant.NOT_VACUOUS, None, f"'{fault}' never happened")
    if not evidence.observations.looks:
        yield Violation(Invariant.NOT_VACUOUS, None, "the tasks were never observed while they ran")
    if evidence.plan.has_drawn and not any(map(evidence.calls_of, _drawn(evidence))):
        yield Violation(Invariant.NOT_VACUOUS, None, "no step of a drawn workflow was ever called")


def _drawn(evidence: Evidence) -> list[str]:
    return [order for order, scenario in evidence.plan.scenarios.items() if scenario is Scenario.DRAWN]


def _is_reported_as_lost(order: str, evidence: Evidence) -> bool:
    return names(evidence.rejected, order) and any(order in alert.text for alert in evidence.alerts)
