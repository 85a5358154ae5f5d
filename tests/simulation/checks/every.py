"""All checks, with those of announcements, effects, ends and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from functions.pattern.states import Way
from tests.simulation.checks.alerts import PostedAlert, unnamed
from tests.simulation.checks.calls import limits_of_services
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.histories import failure_count, monotone, mutual_exclusion
from tests.simulation.checks.journal import StepChange
from tests.simulation.checks.rows import FINAL, RawEpoch, TaskRows, body_of, names
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


def one_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find what was done, or undone, more than once; what knows no keys, or under other keys, too.

    No id of a run's tasks is taken a second time, so each has one birth: that of its order's row.
    """
    for kind, effects in (("done", evidence.ledger.done), ("undone", evidence.ledger.undone)):
        times = Counter[tuple[str, str]]()
        for effect, count in effects.items():
            times[effect.partition(".")[0], effect.partition("/")[2]] += count
        for (task, step), count in times.items():
            if count > 1:
                yield Violation(Invariant.ONE_EFFECT, task, f"{step} was {kind} {count} times")
    for call in evidence.ledger.calls:
        birth = evidence.births.get(call.task)
        if birth is not None and not call.key.startswith(f"{call.task}.{birth}/"):
            what = f"{call.key} was called, and its task's birth is {birth}"
            yield Violation(Invariant.ONE_EFFECT, call.task, what)


def nothing_is_only_said(evidence: Evidence) -> Iterator[Violation]:
    """Find steps that were recorded as done, or undone, before their service, or task, had done it."""
    for task, changes in evidence.step_changes.items():
        for change in changes:
            state, name = str(change.after.get("State")), change.after["Name"]
            is_known = {"Completed": change.was_done, "Undone": change.was_undone}.get(state, True)
            if state != change.before.get("State") and not is_known and _has_effect(evidence, task, name):
                yield Violation(Invariant.NET_EFFECT, task, f"{name} was recorded {state}, and was not")


def _has_effect(evidence: Evidence, task: str, step: str) -> bool:
    """Tell whether a step has an effect: what only waits or reads has none, nor has an operator's word."""
    definition = evidence.steps.step(step)
    only_waits = definition.via.waits and definition.via is not Way.WORKFLOW
    is_read = only_waits or definition.agent in evidence.only_read
    return not is_read and (task, step) not in evidence.given


def net_effect(evidence: Evidence) -> Iterator[Violation]:
    """Find final states that the ledger contradicts."""
    for task, rows in evidence.tasks.items():
        if rows.task is None:
            continue
        check = {"Processed": _processed, "Compensated": _compensated}.get(rows.task.state)
        if check is not None:
            for what in check(evidence, task, rows):
                yield Violation(Invariant.NET_EFFECT, task, what)


def _processed(evidence: Evidence, task: str, rows: TaskRows) -> Iterator[str]:
    for step in rows.steps:
        key = f"{task}.{evidence.births[task]}/{step.name}"
        was_begun = evidence.ledger.done[key] or key in evidence.children
        if step.state == "Completed" and not was_begun and _has_effect(evidence, task, step.name):
            yield f"Processed, but {step.name} was never done"
        if evidence.ledger.undone[key]:
            yield f"Processed, but {step.name} was undone"
        if step.state == "Skipped" and was_begun:
            yield f"Processed without {step.name}, which was done"


def _compensated(evidence: Evidence, task: str, rows: TaskRows) -> Iterator[str]:
    for step in rows.steps:
        key = f"{task}.{evidence.births[task]}/{step.name}"
        definition = evidence.steps.step(step.name)
        is_undone = definition.undo or definition.via is Way.WORKFLOW
        if definition.undo and key in evidence.ledger.stands:
            yield f"Compensated, but {step.name} stands ({step.state})"
        elif is_undone and step.started_at is not None and step.state != "Undone":
            yield f"Compensated, but {step.name} is {step.state}"


def no_loss(evidence: Evidence) -> Iterator[Violation]:
    """Find what was accepted, and is nowhere."""
    for task in evidence.accepted:
        if task not in evidence.tasks and not names(evidence.rejected, task):
            yield Violation(Invariant.NO_LOSS, task, "was accepted, and there is no task")
    for task, answer in evidence.refused.items():
        yield Violation(Invariant.NO_LOSS, task, f"refused, though nothing is wrong with it: {answer}")


def no_message_dies_unseen(evidence: Evidence) -> Iterator[Violation]:
    """Find messages that died, and are kept nowhere: the log tells of them, the webhook at best."""
    kept = {body_of(row) for row in evidence.rejected}
    for queue, body in evidence.buried:
        if body not in kept:
            what = f"a message died on {queue}, and is kept nowhere: {body!r:.99}"
            yield Violation(Invariant.NO_LOSS, None, what)


def termination(evidence: Evidence) -> Iterator[Violation]:
    """Find what was not at rest in time, and what was raised where nobody could catch it."""
    for what in evidence.leftovers:
        yield Violation(Invariant.TERMINATION, what.partition("|")[0], what)
    for what in evidence.unhandled:
        yield Violation(Invariant.TERMINATION, None, what)


def cancelled(evidence: Evidence) -> Iterator[Violation]:
    """Find cancels that were taken and came to nothing, or that nobody asked for."""
    for task, rows in evidence.tasks.items():
        is_undone = rows.task is not None and (
            rows.task.state == "Compensated" or (rows.task.direction, rows.task.state) == ("undo", "Error")
        )
        if task in evidence.cancelled and not is_undone:
            state = None if rows.task is None else rows.task.state
            yield Violation(Invariant.CANCELLED, task, f"its cancel was answered 202, but it is {state}")
        for before, epoch in pairwise(rows.history):
            if epoch.ended_by == "cancelled" and epoch.direction == "undo" and not _is_held_up(before, epoch):
                what = f"cancelled in epoch {epoch.epoch}, though it was on its way back"
                yield Violation(Invariant.CANCELLED, task, what)


def _is_held_up(before: RawEpoch, epoch: RawEpoch) -> bool:
    """Tell whether an undo went on only by a cancel: it had failed for good, or an operator had parked it."""
    return epoch.state == "Error" or before.ended_by == "parked"


def as_seen(evidence: Evidence) -> Iterator[Violation]:
    """Give what was seen while it happened."""
    yield from evidence.seen


_UNDER_WAY = frozenset({"Running", "Undoing"})
_DONE = frozenset({"Completed", "Undone"})


def no_late_outcome(evidence: Evidence) -> Iterator[Violation]:
    """Find what can be repeated, and was recorded as done after its complete-by, by the writer's clock."""
    for task, change in _of_repeatable_steps(evidence):
        late = change.after.get("FinishedAt", "") > change.after.get("CompleteBy", "9")
        if late and _has_ended(change) and not change.opens_epoch:
            what = f"{change.after['Name']} was recorded {change.after['State']} after its complete-by"
            yield Violation(Invariant.SILENCE_OF_THE_LATE, task, what)


def what_ended_stays(evidence: Evidence) -> Iterator[Violation]:
    """Find steps that may be repeated and were changed though their task had ended, in its last epoch."""
    for task, change in _of_repeatable_steps(evidence):
        has_ended = change.task_before["ProcessState"] in FINAL and not change.opens_epoch
        if has_ended and change.before.get("State") != change.after.get("State"):
            what = f"{change.after['Name']} became {change.after['State']} after its task's end"
            yield Violation(Invariant.MONOTONE, task, what)


def no_outcome_of_another(evidence: Evidence) -> Iterator[Violation]:
    """Find starts and outcomes of an epoch that had ended; what must not be repeated is kept all the same."""
    for task, changes in evidence.step_changes.items():
        for change in changes:
            begun = change.after.get("State") in _UNDER_WAY and _start(change.before) != _start(change.after)
            if begun and change.after["Epoch"] < change.task_before["Epoch"]:
                what = (
                    f"{change.after['Name']} was started for epoch {change.after['Epoch']}, which had ended"
                )
                yield Violation(Invariant.MUTUAL_EXCLUSION, task, what)
    for task, change in _of_repeatable_steps(evidence):
        is_old = change.before.get("Epoch", 0) == change.after.get("Epoch") < change.task_before["Epoch"]
        if is_old and _has_ended(change) and not change.opens_epoch:
            what = f"an outcome of {change.after['Name']} counted, of epoch {change.after['Epoch']}"
            yield Violation(Invariant.MUTUAL_EXCLUSION, task, what)


def _of_repeatable_steps(evidence: Evidence) -> Iterator[tuple[str, StepChange]]:
    for task, changes in evidence.step_changes.items():
        for change in changes:
            definition = evidence.steps.step(change.after["Name"])
            if definition.idempotent and not definition.via.waits:
                yield task, change


def _has_ended(change: StepChange) -> bool:
    return change.after.get("State") in _DONE and change.before.get("State") in _UNDER_WAY


def _start(step: Mapping[str, Any]) -> tuple[object, object]:
    return step.get("StartId"), step.get("Epoch")


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
