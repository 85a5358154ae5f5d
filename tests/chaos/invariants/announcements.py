"""I11, status agrees, and I12, alerts: notices and alerts against what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tests.chaos.evidence.alerts import PostedAlert, unnamed
from tests.chaos.evidence.clocks import ToldTimes
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.evidence.notices import Notice
from tests.chaos.evidence.rows import CHILD, TaskRows
from tests.chaos.invariants.violations import Invariant, Violation

#: The notice of each final state.
_ENDS = {"Processed": "completed", "Error": "failed", "Compensated": "compensated"}
_RECEIVED = ("received", 1)
#: What is told of a step that was under way when its task was to be undone.
_DOUBT = "its outcome is unknown, and it has no undo"
#: How the epoch of a parked task ends.
_RELEASED = "released"

#: A notice: its kind and its epoch.
type _Sent = tuple[str, int]


def status_agrees(evidence: Evidence) -> Iterator[Violation]:
    """Find notices that are missing, wrong, or after the last one."""
    for order, rows in evidence.tasks.items():
        if order.startswith(CHILD):
            continue
        notices = sorted((each for each in evidence.notices if each.id == order), key=lambda it: it.at)
        expected, sent = _history(rows), _without_repeats(notices)
        if sent != expected and not _differs_by_clocks(notices, expected, evidence.told):
            what = f"its notices are {_text(sent)}, but what happened is {_text(expected)}"
            yield Violation(Invariant.STATUS_AGREES, order, what)
        if any(notice.correlation_id != f"for-{order}" for notice in notices):
            yield Violation(Invariant.STATUS_AGREES, order, "a notice lacks its correlation id")


def alerts(evidence: Evidence) -> Iterator[Violation]:
    """Find tasks that needed an operator without an alert, and alerts without need."""
    sent = {
        (alert.order, alert.epoch)
        for alert in evidence.alerts
        if not _tells_what_is_noted(alert, evidence.tasks.get(alert.order or ""))
    }
    needed = {(order, epoch) for order, rows in evidence.tasks.items() for epoch in _alarming(rows)}
    for order, epoch in sorted(needed - sent)[unnamed(evidence.alerts) :]:
        yield Violation(Invariant.ALERTS, order, f"no alert of what happened in epoch {epoch}")
    yield from needless_alerts(evidence.alerts, evidence.tasks)


def needless_alerts(alerts: Sequence[PostedAlert], tasks: Mapping[str, TaskRows]) -> Iterator[Violation]:
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


def _history(rows: TaskRows) -> list[_Sent]:
    """Return the notices that the caller must get, in order."""
    ends = [(_ENDS[epoch.state], epoch.epoch) for epoch in rows.history if epoch.state in _ENDS]
    if rows.task is not None and rows.task.state in _ENDS:
        ends.append((_ENDS[rows.task.state], rows.task.epoch))
    return [_RECEIVED, *ends]


def _differs_by_clocks(notices: Sequence[Notice], expected: Sequence[_Sent], told: ToldTimes) -> bool:
    """Tell whether all came, and each can have happened after the one before it: hosts' clocks differ."""
    times = {(each.kind, each.epoch): each.at for each in reversed(notices)}
    if set(times) != set(expected):
        return False
    return all(
        told.earliest(times[one]) <= told.latest(times[following]) for one, following in pairwise(expected)
    )


def _without_repeats(notices: Sequence[Notice]) -> list[_Sent]:
    return list(dict.fromkeys((notice.kind, notice.epoch) for notice in notices))


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


def _text(notices: Sequence[_Sent]) -> str:
    return ", ".join(f"{kind} ({epoch})" for kind, epoch in notices) or "nothing"
