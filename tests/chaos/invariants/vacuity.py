"""I14, not vacuous: a run in which nothing went wrong proves nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.evidence import Evidence
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.plan import kinds_of


def not_vacuous(evidence: Evidence) -> Iterator[Violation]:
    """Look for kinds of faults that never met anything."""
    for kind in sorted(kinds_of(evidence.plan)):
        if not evidence.fired.get(kind):
            yield Violation(Invariant.NOT_VACUOUS, None, f"'{kind}' never happened")
    if not evidence.sightings.looks:
        yield Violation(Invariant.NOT_VACUOUS, None, "the tasks were never looked at while they ran")
