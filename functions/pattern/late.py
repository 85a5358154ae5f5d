"""What is known of a step that must not be repeated is kept on that step, whatever became of the task."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from functions.pattern.epochs import UNKNOWN_AND_STAYS
from functions.pattern.events import StepCompleted, StepFailed, StepNotTaken, StepReply, StepUnrecorded
from functions.pattern.identity import Epoch, StepName, start_of
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, StepState
from functions.pattern.step_records import OUTCOME_UNKNOWN, StepRecord
from functions.pattern.texts import MAX_ERROR_BYTES, bounded
from functions.pattern.waits import never_begun, not_taken

_TURNED_BACK = frozenset({StepState.UNDOING, StepState.UNDONE})
_STANDS = "it was done, as is known by now, and stands: it has no undo"
_REFUSED_AFTER_ALL = "taken for done, but refused, as is known by now: {}"
_BEGUN_AGAIN = "begun in epoch {}, too, which is known by now to have been done"


def late_outcome(record: TaskRecord, event: StepReply, now: datetime) -> TaskRecord | None:
    """Record an outcome that came too late for its task, recognised by its start; None if it is not known.

    It changes its step only: the task, and what it waits for, stay as they are.
    """
    step = next((step for step in record.steps if step.name == event.step), None)
    if step is None or step.shape.idempotent or event.start_id is None:
        return None
    if step.start_id == event.start_id:
        known = _of_latest_start(record, step, event, now) or _contradicted(record, step, event)
    elif _is_older_start(record, event):
        known = _of_older_start(step, event)
    else:
        known = None
    return None if known is None else record if known is step else record.with_step(known)


def replied_step(
    record: TaskRecord, step: StepName, token: str, epoch: Epoch | None = None
) -> StepName | None:
    """Name the step that a reply is of; of a for-each step, the item whose request had the reply's token.

    Of a token that no item is known to have had, it names one that was begun after that `epoch`, which may
    have had it, or else any; that one refuses it. None for a step that the task has not.
    """
    start, items = start_of(token), record.steps_of(step)
    starts = {each.start_id: each.name for closed in record.history for each in closed.steps}
    starts |= {each.start_id: each.name for each in items}
    starts |= {start: each.name for each in items for start in each.not_taken}
    names = [each.name for each in items]
    if starts.get(start) in names:
        return starts[start]
    since = [each.name for each in items if epoch is not None and (each.epoch or epoch) > epoch]
    return next(iter([*since, *names]), None)


def _is_older_start(record: TaskRecord, event: StepReply) -> bool:
    return event.start_id in record.step(event.step).not_taken or any(
        past.name == event.step and past.start_id == event.start_id
        for closed in record.history
        if closed.direction is Direction.DO
        for past in closed.steps
    )


def _of_latest_start(
    record: TaskRecord, step: StepRecord, event: StepReply, now: datetime
) -> StepRecord | None:
    """Complete or fail the step; one that an operator took for not done is not run once more."""
    if isinstance(event, StepNotTaken):
        return _never_begun(step, now)
    is_open = step.state in {StepState.RUNNING, StepState.NOT_STARTED, StepState.FAILED}
    error = None if isinstance(event, StepCompleted) else bounded(event.error, MAX_ERROR_BYTES)
    ended = replace(step, finished_at=now, error=error)
    if record.task.direction is Direction.UNDO and not step.shape.undo and not isinstance(event, StepFailed):
        ended = replace(ended, noted=_STANDS)
    elif step.noted == UNKNOWN_AND_STAYS:
        ended = replace(ended, noted=None)
    match event:
        case StepCompleted() if is_open:
            return replace(ended, state=StepState.COMPLETED, result=event.result)
        case StepUnrecorded() if is_open:
            return replace(ended, state=StepState.UNRECORDED)
        case StepFailed() if step.in_doubt:
            return replace(ended, state=StepState.FAILED)
        case StepCompleted() if step.state is StepState.COMPLETED:
            return step  # it came before
        case _:
            return None


def _never_begun(step: StepRecord, now: datetime) -> StepRecord | None:
    """Have a step in doubt be known not to have been done."""
    if not step.in_doubt:
        return None
    known = not_taken(step) if step.never_twice else never_begun(step, now)
    return replace(known, noted=None) if step.noted == UNKNOWN_AND_STAYS else known


def _contradicted(record: TaskRecord, step: StepRecord, event: StepReply) -> StepRecord | None:
    """Note on a step that an operator took for done that it was refused: that opened another epoch."""
    is_taken = step.state is StepState.COMPLETED and event.epoch < record.task.epoch
    if not is_taken or not isinstance(event, StepFailed) or _was_refused(record, event):
        return None
    note = bounded(_REFUSED_AFTER_ALL.format(event.error), MAX_ERROR_BYTES)
    return step if step.noted == note else replace(step, noted=note)


def _was_refused(record: TaskRecord, event: StepFailed) -> bool:
    """Tell whether this start was known to be refused before: an operator gave a result all the same."""
    return any(
        (past.name, past.start_id, past.state) == (event.step, event.start_id, StepState.FAILED)
        and not (past.error or "").startswith(OUTCOME_UNKNOWN)
        for closed in record.history
        for past in closed.steps
    )


def _of_older_start(step: StepRecord, event: StepReply) -> StepRecord | None:
    """Keep the result for the undo; of a step that was begun again, note that it was done before."""
    if isinstance(event, StepFailed | StepNotTaken):
        return None
    if step.state not in _TURNED_BACK:
        note = _BEGUN_AGAIN.format(event.epoch)
        return step if step.noted == note else replace(step, noted=note)
    if isinstance(event, StepCompleted) and step.result is None:
        return replace(step, result=event.result)
    return step
