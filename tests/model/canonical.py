"""Records without the facts that no rule depends on: records that differ in such facts only are one record.

The time is always `START`. With each `TICK` all deadlines are nearer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from functions.core.record import Decision, Operation, OperationState, StepRecord, TaskRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(seconds=30)
#: The epoch of every record.
CURRENT = 2
#: Each start id that a fold draws begins with it, until the record is canonical.
DRAWN = "drawn."
#: A time in the past, and the time between a deadline and the end of its tick.
_PAST, _BEFORE = START - TICK, timedelta(seconds=10)


def in_ticks(count: int) -> datetime:
    """Return a deadline that passes in the tick with this number."""
    return START + count * TICK - _BEFORE


def _rounded(time: datetime | None) -> datetime | None:
    if time is None:
        return None
    return _PAST if time <= START else in_ticks(math.ceil((time - START) / TICK))


def aged(record: TaskRecord) -> TaskRecord:
    """Return a record one tick later."""
    steps = {}
    for name, step in record.steps.items():
        do, undo = (replace(each, complete_by=_aged(each.complete_by)) for each in (step.do, step.undo))
        steps[name] = replace(step, do=do, undo=undo)
    return replace(
        record,
        steps=steps,
        start_by=_aged(record.start_by) or record.start_by,
        resume_at=_aged(record.resume_at),
        expires_at=_aged(record.expires_at),
    )


def _aged(time: datetime | None) -> datetime | None:
    return None if time is None else _rounded(time - TICK)


def canonical(record: TaskRecord, under_way: frozenset[str]) -> tuple[TaskRecord, Mapping[str, str]]:
    """Return the canonical record, and the names of the start ids that its last change drew.

    `under_way` are the start ids of calls. A start id without a call has no effect on repeatable steps.
    """
    names = _named(record, under_way)
    operations = (each for step in record.steps.values() for each in (step.do, step.undo))
    numbers = sorted({each.number for each in operations if each.number is not None})
    ranks = {number: rank for rank, number in enumerate(numbers, 1)}
    steps = {}
    for name, step in sorted(record.steps.items()):
        is_once = not record.order.by_name[name].idempotent
        do = _canonical_operation(step.do, ranks, names, under_way, is_once=is_once)
        undo = _canonical_operation(step.undo, ranks, names, under_way, is_once=False)
        steps[name] = replace(step, do=do, undo=undo)
    decision = record.decision
    kept = replace(
        record,
        epoch=CURRENT,
        start_by=_PAST if record.finished_at is not None else _rounded(record.start_by) or _PAST,
        resume_at=_rounded(record.resume_at),
        expires_at=_rounded(record.expires_at),
        steps=steps,
        decision=None if decision is None else Decision(end=decision.end, reason=""),
        error=None if record.error is None else "",
        finished_at=None if record.finished_at is None else START,
        acted_at=None,
        reason=None,
        closed=(),
        outbox=(),
    )
    return kept, names


def _named(record: TaskRecord, under_way: frozenset[str]) -> Mapping[str, str]:
    """Return the name of each drawn start id: the first one of its step that is not in use."""
    names = dict[str, str]()
    for step in record.steps.values():
        for start_id in (step.do.start_id, step.undo.start_id):
            if start_id is not None and start_id.startswith(DRAWN):
                used = {*under_way, *_start_ids(step), *names.values()}
                numbers = range(1, len(used) + 2)
                names[start_id] = next(
                    name for number in numbers if (name := f"{step.name}.{number}") not in used
                )
    return names


def _start_ids(step: StepRecord) -> set[str]:
    return {*step.do.earlier_starts, step.do.start_id or "", step.undo.start_id or ""}


def _canonical_operation(
    operation: Operation,
    ranks: Mapping[int, int],
    names: Mapping[str, str],
    under_way: frozenset[str],
    *,
    is_once: bool,
) -> Operation:
    is_running = operation.state is OperationState.RUNNING
    start_id = names.get(operation.start_id or "", operation.start_id)
    is_kept = is_once or is_running or start_id in under_way
    return replace(
        operation,
        number=None if operation.number is None else ranks[operation.number],
        run=operation.run if is_running else None,
        start_id=start_id if is_kept else None,
        complete_by=_rounded(operation.complete_by) if is_running else None,
        started_at=None if operation.started_at is None else START,
        finished_at=None if operation.finished_at is None else START,
        error=None if is_running or operation.error is None else "",
        unknown_starts=0,
        attempts=(),
    )
