"""Records without what changes nothing: states that differ in such things only are one state.

Time stands still at `START`, and `TICK` by `TICK` what was ahead comes nearer, and is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.identity import Epoch, scheduler_id
from functions.pattern.records import Decision, EpochRecord, TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState
from functions.pattern.step_records import PastStep, StepRecord
from tests.fakes.clock import START

TICK = timedelta(seconds=30)
#: The epoch of every record.
CURRENT = Epoch(2)
#: A time that is over, and how long before each tick's end a time lies that is ahead.
_OVER, _BEFORE = START - TICK, timedelta(seconds=10)


def in_ticks(count: int) -> datetime:
    """Give the time that is over after so many ticks."""
    return START + count * TICK - _BEFORE


def _when(time: datetime | None) -> datetime | None:
    """Round a time: all that is over is alike."""
    if time is None:
        return None
    return _OVER if time <= START else in_ticks(math.ceil((time - START) / TICK))


def aged_record(record: TaskRecord) -> TaskRecord:
    """Give a record as it is after a tick: its times are nearer. The order of dispatches stays."""
    task = record.task
    due_at, complete_by = task.due_at - TICK, _earlier(task.complete_by)
    steps = tuple(replace(each, complete_by=_earlier(each.complete_by)) for each in record.steps)
    return canonical(replace(record, task=replace(task, due_at=due_at, complete_by=complete_by), steps=steps))


def _earlier(time: datetime | None) -> datetime | None:
    return None if time is None else time - TICK


def canonical(record: TaskRecord) -> TaskRecord:
    """Leave out texts, times of the past, and what is sent; keep the order of dispatches, not their times.

    Its epoch is `CURRENT`, all before it are the one before.
    """
    begun = sorted(each.started_at for each in record.steps if each.started_at is not None)
    ranks = {time: START - timedelta(microseconds=len(begun) - number) for number, time in enumerate(begun)}
    task = record.task
    decision = None if task.decision is None else Decision(who="", reason="", ended_by=task.decision.ended_by)
    kept = replace(
        task,
        locked_by=None if task.locked_by is None else scheduler_id(task.order_id, CURRENT),
        complete_by=_when(task.complete_by),
        epoch=CURRENT,
        due_at=_when(task.due_at) or task.due_at,
        updated_at=_OVER,  # each change of the task shows
        not_before=None,  # a run may begin early: nothing but the bus's schedule keeps it from that
        finished_at=None if task.finished_at is None else START,
        last_error=None,
        decision=decision,
    )
    steps = tuple(_canonical_step(record, each, ranks) for each in record.steps)
    return replace(record, task=kept, steps=steps, history=tuple(_older_starts(record)))


def _canonical_step(record: TaskRecord, step: StepRecord, ranks: Mapping[datetime, datetime]) -> StepRecord:
    is_current = step.epoch == record.task.epoch
    epoch = None if step.epoch is None else CURRENT if is_current else Epoch(CURRENT - 1)
    return replace(
        step,
        complete_by=_when(step.complete_by) if step.state.is_under_way else None,
        started_at=None if step.started_at is None else ranks[step.started_at],
        finished_at=None,
        epoch=epoch,
        error=None if step.error is None else "",
        start_id=step.start_id if is_current or not step.shape.idempotent else None,
        noted=None if step.noted is None else step.noted.partition(" ")[0],
    )


def _older_starts(record: TaskRecord) -> Iterator[EpochRecord]:
    """Keep by which older starts of what must not be repeated a late outcome is recognised."""
    latest = {each.start_id for each in record.steps}
    older = {
        (past.name, past.start_id)
        for closed in record.history
        for past in closed.steps
        if past.start_id is not None and closed.direction is Direction.DO
    }
    for name, start in sorted(older):
        if start not in latest:
            yield EpochRecord(
                epoch=Epoch(CURRENT - 1),
                ended_by=EpochEnd.RECOVERED,
                ended_at=START,
                who="",
                reason="",
                process_state=ProcessState.PENDING,
                direction=Direction.DO,
                locked_by=None,
                steps=(PastStep(name=name, state=StepState.RUNNING, start_id=start),),
            )
