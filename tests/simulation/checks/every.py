"""All checks."""

from __future__ import annotations

from tests.simulation.checks.announcements import alerts, status_agrees
from tests.simulation.checks.calls import limits_of_services
from tests.simulation.checks.effects import net_effect, nothing_is_only_said, one_effect
from tests.simulation.checks.ends import as_seen, cancelled, no_loss, no_message_dies_unseen, termination
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.histories import failure_count, monotone, mutual_exclusion
from tests.simulation.checks.outcomes import no_late_outcome, no_outcome_of_another, what_ended_stays
from tests.simulation.checks.violations import Violation

_CHECKS = (
    no_loss,
    no_message_dies_unseen,
    one_effect,
    net_effect,
    nothing_is_only_said,
    mutual_exclusion,
    monotone,
    as_seen,
    termination,
    no_late_outcome,
    no_outcome_of_another,
    what_ended_stays,
    failure_count,
    limits_of_services,
    status_agrees,
    alerts,
    cancelled,
)


def violations(evidence: Evidence) -> list[Violation]:
    """Give all violations, in the order of the checks."""
    return [violation for check in _CHECKS for violation in check(evidence)]
