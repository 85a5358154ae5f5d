"""The report of a run: faults, outcomes, invariants, violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.chaos.evidence.evidence import Evidence
from tests.chaos.invariants import Invariant, Violation
from tests.chaos.invariants.violations import SIMULATED
from tests.chaos.remotes.ledger import Effect


def report(console: Console, evidence: Evidence, found: Sequence[Violation]) -> None:
    """Print everything about the run."""
    console.print(_faults(evidence), _outcomes(evidence), _invariants(found))
    for violation in found:
        where = violation.order or "-"
        console.print(
            f"{violation.invariant.number} {where}: {violation.what}", highlight=False, markup=False
        )
    verdict = f"{len(found)} violations" if found else "no violation"
    plan, settling = evidence.plan, evidence.settling
    counts = f"{len(plan.orders)} orders, {sum(evidence.fault_counts.values())} faults, {verdict}"
    bound = evidence.limits.termination(drawn=plan.has_drawn)
    rest = f"settled {settling.seconds:.0f} s after the last fault (bound: {bound:.0f} s)"
    console.print(f"seed {plan.seed}: {counts}; {rest}", highlight=False)


def _faults(evidence: Evidence) -> Table:
    table = Table("fault", "happened", title="faults")
    for fault, count in evidence.fault_counts.items():
        table.add_row(fault, "not run" if fault in evidence.plan.not_run else str(count))
    return table


def _outcomes(evidence: Evidence) -> Table:
    table = Table("outcome", "count", title="outcomes")
    states = Counter(rows.task.state if rows.task else "no task" for rows in evidence.tasks.values())
    for state, count in sorted(states.items()):
        table.add_row(f"orders {state}", str(count))
    ends = Counter(epoch.ended_by for rows in evidence.tasks.values() for epoch in rows.history)
    for end, count in sorted(ends.items()):
        table.add_row(f"epochs {end}", str(count))
    calls = Counter((call.direction, call.effect) for call in evidence.calls)
    for (direction, effect), count in sorted(calls.items()):
        what = "not carried out" if effect is Effect.NONE else effect
        table.add_row(f"payment calls, {direction}, {what}", str(count))
    table.add_row("notices", str(len(evidence.notices)))
    table.add_row("alerts", str(len(evidence.alerts)))
    rejected = Counter(row["PartitionKey"].replace("|", "/") for row in evidence.rejected)
    for queue, count in sorted(rejected.items()):
        table.add_row(f"messages rejected, {queue}", str(count))
    table.add_row("observations of all tasks", str(evidence.observations.looks))
    return table


def _invariants(found: Sequence[Violation]) -> Table:
    counts = Counter(violation.invariant for violation in found)
    table = Table("invariant", "violations", "evidence", title="invariants")
    for invariant in [each for each in Invariant if each not in SIMULATED]:
        name = invariant.name.lower().replace("_", " ")
        table.add_row(f"{invariant.number} {name}", str(counts[invariant]), invariant.evidence)
    return table
