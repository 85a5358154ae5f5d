"""The report of a run: faults, outcomes, violations."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table

from functions.core.derive import derive
from tests.chaos.evidence.judge import Judge, Outcome
from tests.chaos.plan import InjectedFault, Limits, Plan


def report(console: Console, plan: Plan, judge: Judge, outcome: Outcome, limits: Limits) -> None:
    """Print everything about the run."""
    faults = Table("fault", "effects", title="faults")
    for fault in InjectedFault:
        faults.add_row(fault, str(outcome.fault_counts.get(fault, 0)))
    console.print(faults, _outcomes(judge, outcome))
    found = judge.violations
    for text in found:
        console.print(text, highlight=False, markup=False)
    verdict = f"{len(found)} violations" if found else "no violation"
    effects = sum(outcome.fault_counts.values())
    rest = f"settled {outcome.seconds:.0f} s after the last fault (bound: {limits.termination:.0f} s)"
    line = f"seed {plan.seed}: {len(plan.orders)} orders, {effects} effects of faults, {verdict}; {rest}"
    console.print(line, highlight=False)


def _outcomes(judge: Judge, outcome: Outcome) -> Table:
    table = Table("outcome", "count", title="outcomes")
    states = Counter(str(derive(record).state) for record in judge.records.values())
    for state, number in sorted(states.items()):
        table.add_row(f"orders {state}", str(number))
    epochs = sum(record.epoch - 1 for record in judge.records.values())
    table.add_row("epochs that ended", str(epochs))
    table.add_row("notices and alerts", str(len(judge.posted)))
    table.add_row("rejected messages", str(len(outcome.rejected)))
    table.add_row("looks at all tasks", str(judge.looks))
    return table
