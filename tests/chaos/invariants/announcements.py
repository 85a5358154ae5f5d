"""I11, status agrees, and I12, alerts: what callers and operators were told against what happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.chaos.evidence import Evidence
from tests.chaos.invariants.violations import Invariant, Violation
from tests.chaos.notices import Notice
from tests.chaos.rows import TaskRows

#: The notice that tells of each end.
_ENDS = {"Processed": "completed", "Error": "failed", "Compensated": "compensated"}
_RECEIVED = ("received", 1)

#: What is told: its kind and its epoch.
type _Told = tuple[str, int]


def status_agrees(evidence: Evidence) -> Iterator[Violation]:
    """Look for notices that are missing, wrong, or later than the last one."""
    for order, rows in evidence.tasks.items():
        notices = sorted((each for each in evidence.notices if each.order_id == order), key=lambda it: it.at)
        expected, told = _history(rows), _without_repeats(notices)
        if told != expected:
            what = f"was told {_text(told)}, but what happened is {_text(expected)}"
            yield Violation(Invariant.STATUS_AGREES, order, what)
        if any(notice.correlation_id != f"for-{order}" for notice in notices):
            yield Violation(Invariant.STATUS_AGREES, order, "a notice lacks its correlation id")


def alerts(evidence: Evidence) -> Iterator[Violation]:
    """Look for tasks that needed an operator and were not told, and for those told without need."""
    told = {
        (alert.order, alert.epoch)
        for alert in evidence.alerts
        if alert.order is not None and alert.epoch is not None
    }
    needed = {(order, epoch) for order, rows in evidence.tasks.items() for epoch in _alarming(rows)}
    for order, epoch in sorted(needed - told):
        yield Violation(Invariant.ALERTS, order, f"no alert of what happened in epoch {epoch}")
    for order, epoch in told - needed:
        yield Violation(Invariant.ALERTS, order, f"an alert of epoch {epoch}, in which nothing happened")


def _history(rows: TaskRows) -> list[_Told]:
    """Give what the caller must be told, in its order."""
    ends = [(_ENDS[epoch.state], epoch.epoch) for epoch in rows.history if epoch.state in _ENDS]
    if rows.task is not None and rows.task.state in _ENDS:
        ends.append((_ENDS[rows.task.state], rows.task.epoch))
    return [_RECEIVED, *ends]


def _without_repeats(notices: Sequence[Notice]) -> list[_Told]:
    return list(dict.fromkeys((notice.kind, notice.epoch) for notice in notices))


def _alarming(rows: TaskRows) -> Iterator[int]:
    """Name the epochs in which the task came into `Error`, or was given up."""
    for epoch in rows.history:
        if epoch.state == "Error" or epoch.ended_by == "exhausted":
            yield epoch.epoch
    if rows.task is not None and rows.task.state == "Error":
        yield rows.task.epoch


def _text(told: Sequence[_Told]) -> str:
    return ", ".join(f"{kind} ({epoch})" for kind, epoch in told) or "nothing"
