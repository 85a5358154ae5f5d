"""I11, status agrees, and I12, alerts: what callers and operators were told, against what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from tests.simulation.checks.alerts import PostedAlert, unnamed
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.rows import TaskRows
from tests.simulation.checks.violations import Invariant, Violation

#: The notice of each final state.
_ENDS = {"Processed": "completed", "Error": "failed", "Compensated": "compensated"}
#: What is told of a step that was under way when its task was to be undone.
_DOUBT = "its outcome is unknown, and it has no undo"
#: How the epoch of a parked task ends.
_RELEASED = "released"


def status_agrees(evidence: Evidence) -> Iterator[Violation]:
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


def _entered(evidence: Evidence, task: str) -> Iterator[tuple[str, int]]:
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


def alerts(evidence: Evidence) -> Iterator[Violation]:
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
    yield from _needless(evidence.alerts, evidence.tasks)


def _needless(alerts: Sequence[PostedAlert], tasks: Mapping[str, TaskRows]) -> Iterator[Violation]:
    """Find alerts of epochs in which nothing happened that an operator has to know."""
    for alert in alerts:
        rows = tasks.get(alert.order or "")
        if alert.order is None or alert.epoch is None or _tells_what_is_noted(alert, rows):
            continue
        if rows is None or alert.epoch not in {*_alarming(rows), *_perhaps_parked(rows)}:
            what = f"an alert of epoch {alert.epoch}, in which nothing happened"
            yield Violation(Invariant.ALERTS, alert.order, what)


def _tells_what_is_noted(alert: PostedAlert, rows: TaskRows | None) -> bool:
    """Tell whether an alert is of what became known of a step when that changed nothing any more.

    A note that its outcome is unknown goes when it is known later that nothing was done.
    """
    if rows is None or alert.epoch is None:
        return False
    before = [step for each in rows.history if each.epoch == alert.epoch - 1 for step in each.steps]
    in_doubt = [f"{step.name}: {_DOUBT}" for step in before if step.state == "Running"]
    noted = [step.noted for step in rows.steps if step.noted]
    return any(each in alert.text for each in (*in_doubt, *noted))


def _alarming(rows: TaskRows) -> Iterator[int]:
    """Yield the epochs in which it entered `Error`, or was given up, or was parked for the first time."""
    yield from [epoch.epoch for epoch in rows.history if epoch.ended_by == _RELEASED][:1]
    for epoch in rows.history:
        if epoch.state == "Error" or epoch.ended_by == "exhausted":
            yield epoch.epoch
    if rows.task is not None and rows.task.state == "Error":
        yield rows.task.epoch


def _perhaps_parked(rows: TaskRows) -> Iterator[int]:
    """Yield the epochs in which a task was parked again, or that ended by hand while it may have been parked.

    What was told of one parking is not told again, unless its reason is another.
    """
    for epoch in rows.history:
        ended_by_hand = epoch.state == "Pending" and epoch.ended_by in {"cancelled", "parked"}
        if epoch.ended_by == _RELEASED or ended_by_hand:
            yield epoch.epoch
