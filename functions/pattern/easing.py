"""What becomes of a task that is late in a crowd: more time, or its turn, and no failure count."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.crowds import Behind
from functions.pattern.events import Eased, Extended, Resumed
from functions.pattern.jitter import lengthened
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.supervision import SupervisionPolicy


def may_be_extended(record: TaskRecord, policy: SupervisionPolicy) -> bool:
    """Tell whether a task has not yet been extended for as long as one can be."""
    return _left(record, policy) > timedelta()


def more_time(
    record: TaskRecord, behind: Behind, now: datetime, policy: SupervisionPolicy, *, place: int | None = None
) -> Extended:
    """Give a task more time: until those before its `place` in line have had their turns.

    Without a line to stand in, it is the longer, the more often the task got some.
    """
    in_line = None if place is None else timedelta(minutes=place / policy.crowd.per_minute)
    wait = _wait(record, policy) if in_line is None else in_line
    return Extended(
        epoch=record.task.epoch,
        until=now + min(wait, _left(record, policy)),
        behind=behind.name,
        cause=str(behind.cause),
    )


def turn(
    record: TaskRecord,
    behind: Behind,
    now: datetime,
    policy: SupervisionPolicy,
    *,
    in_crowd: bool,
    before: int = 0,
) -> Eased:
    """Have a task go on: in its epoch if nobody has claimed it and it is one of many, else in the next.

    So many have theirs `before` it in the same sweep, one after the other at the crowd's rate.
    """
    if record.task.process_state is ProcessState.PENDING and in_crowd:
        return replace(more_time(record, behind, now, policy), asks=True)
    not_before = now + timedelta(minutes=before / policy.crowd.per_minute) if before else None
    start_by = (not_before or now) + policy.start_within
    return Resumed(
        epoch=record.task.epoch,
        start_by=start_by,
        not_before=not_before,
        behind=behind.name,
        cause=str(behind.cause),
        lost=min(_lost(record, now, policy), _left(record, policy)),
    )


def _lost(record: TaskRecord, now: datetime, policy: SupervisionPolicy) -> timedelta:
    """Give the time that what is late had in the epoch, beside its extensions."""
    late = (step for step in record.steps if step.is_late(now))
    had = (step.complete_by - step.began_at for step in late if step.complete_by and step.began_at)
    return max([policy.start_within, *had])


def _left(record: TaskRecord, policy: SupervisionPolicy) -> timedelta:
    extension = record.task.extended
    return policy.crowd.longest - timedelta(seconds=0 if extension is None else extension.seconds)


def _wait(record: TaskRecord, policy: SupervisionPolicy) -> timedelta:
    """Give the task's next extended wait, and a part of it that its id decides."""
    waits = policy.extended_waits or (policy.start_within,)
    times = 0 if record.task.extended is None else record.task.extended.times
    return lengthened(waits[min(times, len(waits) - 1)], f"{record.order.task}|{times}")
