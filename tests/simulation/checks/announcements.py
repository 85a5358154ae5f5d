"""I11, status agrees, and I12, alerts: what callers and operators were told, against what happened."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from tests.chaos.evidence.alerts import unnamed
from tests.chaos.invariants.announcements import needless_alerts
from tests.chaos.invariants.violations import Invariant, Violation
from tests.simulation.checks.evidence import SimulatedEvidence

#: The notice of each final state.
_ENDS = {"Processed": "completed", "Error": "failed", "Compensated": "compensated"}


def status_agrees(evidence: SimulatedEvidence) -> Iterator[Violation]:
    """Find notices that are missing or wrong; they may come twice, and in another order."""
    sent: dict[str, set[tuple[str, int]]] = {}
    for notice in evidence.notices:
        sent.setdefault(notice["id"], set()).add((notice["kind"], notice["epoch"]))
        if notice.get("correlation_id") != f"for-{notice['id']}":
            yield Violation(Invariant.STATUS_AGREES, notice["id"], "a notice lacks its correlation id")
    for task in evidence.accepted:
        expected = {("received", 1), *((_ENDS[state], epoch) for state, epoch in _entered(evidence, task))}
        if task in evidence.tasks and sent.get(task, set()) != expected:
            what = f"its notices are {sorted(sent.get(task, ()))}, but what happened is {sorted(expected)}"
            yield Violation(Invariant.STATUS_AGREES, task, what)


def _entered(evidence: SimulatedEvidence, task: str) -> Iterator[tuple[str, int]]:
    """Give the final states that a task entered; one that stays in `Error` after an answer enters none.

    One transaction may hold a task's end and what ends that epoch, such as a cancel: of this end, only the
    closed epoch tells.
    """
    rows = evidence.tasks.get(task)
    versions = [(each.epoch, each.state) for each in evidence.journal.get(task, ())]
    closed = [(each.epoch, each.state) for each in (rows.history if rows else ())]
    before = None
    for epoch, state in sorted((*versions, *closed), key=itemgetter(0)):
        if state in _ENDS and state != before:
            yield state, epoch
        before = state


def alerts(evidence: SimulatedEvidence) -> Iterator[Violation]:
    """Find transitions to `Error`, and tasks that were given up, without an alert; and alerts without need.

    A summary counts alerts and does not name them.
    """
    sent = {(alert.order, alert.epoch) for alert in evidence.alerts}
    sent |= {(alert.get("id"), alert.get("epoch")) for alert in evidence.dead_alerts}
    missing = []
    for task, rows in evidence.tasks.items():
        entered = {epoch for state, epoch in _entered(evidence, task) if state == "Error"}
        exhausted = {each.epoch for each in rows.history if each.ended_by == "exhausted"}
        missing += [(task, epoch) for epoch in sorted(entered | exhausted) if (task, epoch) not in sent]
    for task, epoch in missing[unnamed(evidence.alerts) :]:
        yield Violation(Invariant.ALERTS, task, f"no alert of what happened in epoch {epoch}")
    yield from needless_alerts(evidence.alerts, evidence.tasks)
