"""What must hold of a run's evidence, whatever faults there were, and that there were enough (I14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.chaos.evidence.evidence import Evidence
from tests.chaos.invariants.announcements import alerts, status_agrees
from tests.chaos.invariants.cancelling import cancelled
from tests.chaos.invariants.completeness import atomic_creation, no_loss, not_vacuous
from tests.chaos.invariants.effects import net_effect, one_effect, order_of_calls
from tests.chaos.invariants.histories import failure_count, monotone, mutual_exclusion
from tests.chaos.invariants.needs import order_of_needs
from tests.chaos.invariants.timeliness import no_late_outcome, termination
from tests.chaos.invariants.violations import Invariant, Violation

__all__ = ["Invariant", "Violation", "violations"]


def _order(evidence: Evidence) -> Iterator[Violation]:
    """Find what was called too early."""
    yield from order_of_calls(evidence)
    yield from order_of_needs(evidence)


_CHECKS: Mapping[Invariant, Callable[[Evidence], Iterator[Violation]]] = {
    Invariant.NO_LOSS: no_loss,
    Invariant.ONE_EFFECT: one_effect,
    Invariant.NET_EFFECT: net_effect,
    Invariant.MUTUAL_EXCLUSION: mutual_exclusion,
    Invariant.MONOTONE: monotone,
    Invariant.ORDER: _order,
    Invariant.TERMINATION: termination,
    Invariant.SILENCE_OF_THE_LATE: no_late_outcome,
    Invariant.FAILURE_COUNT: failure_count,
    Invariant.ATOMIC_BIRTH: atomic_creation,
    Invariant.STATUS_AGREES: status_agrees,
    Invariant.ALERTS: alerts,
    Invariant.CANCELLED: cancelled,
    Invariant.NOT_VACUOUS: not_vacuous,
}


def violations(evidence: Evidence) -> list[Violation]:
    """Return all violations, in the order of the invariants."""
    return [violation for check in _CHECKS.values() for violation in check(evidence)]
