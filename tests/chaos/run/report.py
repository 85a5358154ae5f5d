"""The report of a run: faults, outcomes, invariants, violations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.chaos.evidence.outcome import JUDGED, ChaosOutcome
from tests.chaos.plan import InjectedFault, Limits
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.violations import Invariant, Violation


def report(console: Console, outcome: ChaosOutcome, found: Sequence[Violation], limits: Limits) -> None:
    """Print everything about the run."""
    faults = Table("fault", "effects", title="faults")
    for fault in InjectedFault:
        faults.add_row(fault, str(outcome.fault_counts.get(fault, 0)))
    console.print(faults, _outcomes(outcome.evidence, outcome.looks), _invariants(found))
    for each in found:
        line = f"{each.invariant.number} {each.order or '-'}: {each.what}"
        console.print(line, highlight=False, markup=False)
    verdict = f"{len(found)} violations" if found else "no violation"
    orders, effects = len(outcome.plan.orders), sum(outcome.fault_counts.values())
    rest = f"settled {outcome.settled:.0f} s after the last fault (bound: {limits.termination:.0f} s)"
    line = f"seed {outcome.plan.seed}: {orders} orders, {effects} effects of faults, {verdict}; {rest}"
    console.print(line, highlight=False)


def _outcomes(evidence: Evidence, looks: int) -> Table:
    table = Table("outcome", "count", title="outcomes")
    states = Counter(rows.task.state if rows.task else "no task" for rows in evidence.tasks.values())
    ends = Counter(epoch.ended_by for rows in evidence.tasks.values() for epoch in rows.history)
    calls = Counter(f"{'undo' if each.is_undo else 'do'}, {each.effect}" for each in evidence.ledger.calls)
    for kind, counts in (("orders", states), ("epochs ended:", ends), ("calls,", calls)):
        for name, count in sorted(counts.items()):
            table.add_row(f"{kind} {name}", str(count))
    table.add_row("notices", str(len(evidence.notices)))
    table.add_row("alerts", str(len(evidence.alerts)))
    table.add_row("rejected messages", str(len(evidence.rejected)))
    table.add_row("looks at all tasks", str(looks))
    return table


def _invariants(found: Sequence[Violation]) -> Table:
    counts = Counter(violation.invariant for violation in found)
    table = Table("invariant", "violations", title="invariants")
    for invariant in [each for each in Invariant if each in JUDGED]:
        name = invariant.name.lower().replace("_", " ")
        table.add_row(f"{invariant.number} {name}", str(counts[invariant]))
    return table
