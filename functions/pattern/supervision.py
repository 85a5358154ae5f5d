"""What the Supervisor does about a task: nothing, recovery, or giving up. It knows no workflow."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functions.pattern.crowds import CrowdPolicy
from functions.pattern.decisions import due_by, in_question, known_end, last_fault
from functions.pattern.epochs import FINAL
from functions.pattern.events import (
    DecisionDue,
    GivenUp,
    Judgement,
    Postponed,
    Recovered,
)
from functions.pattern.jitter import lengthened
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, StepState
from functions.pattern.wait_events import WaitsEnded
from functions.pattern.waits import over


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionPolicy:
    """`threshold` recoveries come at once, then one after each of `extended_waits`, or up to a quarter later.

    `skew` allows for clocks that differ; `start_within` is the time that a Scheduler has to claim the task.
    In a `crowd`, none of these recoveries counts.
    """

    threshold: int
    extended_waits: tuple[timedelta, ...]
    skew: timedelta
    start_within: timedelta
    crowd: CrowdPolicy = field(default_factory=CrowdPolicy)


def judge(record: TaskRecord, now: datetime, policy: SupervisionPolicy) -> Judgement | None:
    """Decide about one task; None when it is finished, or parked."""
    task = record.task
    if task.process_state in FINAL or task.is_parked:
        return None
    due = due_by(record, now - policy.skew)
    if now < due + policy.skew:
        return Postponed(epoch=task.epoch, due_at=due)
    return _what_is_due(record, now, policy) or _what_is_late(record, now, policy)


def _what_is_due(
    record: TaskRecord, now: datetime, policy: SupervisionPolicy
) -> DecisionDue | WaitsEnded | None:
    """Tell what is due without anything being late: what was decided, or the end of a wait."""
    epoch, start_by = record.task.epoch, now + policy.start_within
    if known_end(record, now, start_by) is not None:
        return DecisionDue(epoch=epoch, start_by=start_by)
    return WaitsEnded(epoch=epoch, scheduler=None, start_by=start_by) if over(record, now) else None


def _what_is_late(record: TaskRecord, now: datetime, policy: SupervisionPolicy) -> Recovered | GivenUp:
    """Recover a task, as long as that is allowed."""
    task = record.task
    question = in_question(record)
    if question is not None:
        return _give_up(record, now, policy, question)
    waits = task.failure_count - policy.threshold
    if waits >= len(policy.extended_waits):
        return _give_up(record, now, policy, _overdue(record))
    by_task = f"{record.order.task}.{task.epoch}"
    not_before = None if waits < 0 else now + lengthened(policy.extended_waits[waits], by_task)
    start_by = (not_before or now) + policy.start_within
    return Recovered(epoch=task.epoch, start_by=start_by, not_before=not_before)


def _give_up(record: TaskRecord, now: datetime, policy: SupervisionPolicy, reason: str) -> GivenUp:
    """Hold what can't safely be undone automatically: a failed undo, and unknown outcomes."""
    return GivenUp(
        epoch=record.task.epoch,
        reason=reason,
        hold=record.task.direction is Direction.UNDO or in_question(record) is not None,
        start_by=now + policy.start_within,
    )


def _overdue(record: TaskRecord) -> str:
    """Say where a task is stuck, since when, and what went wrong there last."""
    times = record.task.failure_count
    for_long = f"still overdue after {times} {'recovery' if times == 1 else 'recoveries'}"
    for state, what in ((StepState.UNDOING, "undo of "), (StepState.RUNNING, "")):
        for step in record.steps:
            if step.state is state:
                return f"{what}{step.name}: {for_long}{last_fault(step)}"
    return f"task: {for_long}"
