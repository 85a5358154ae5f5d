"""How a step changes a task, in the direction in which it goes."""

from __future__ import annotations

import hmac
from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from functions.pattern.decisions import decide, known_end, refusal, stopped_by
from functions.pattern.epochs import UNDER_WAY, compensated, moved, waited_in_vain
from functions.pattern.errors import IllegalTransitionError
from functions.pattern.events import (
    StepBroken,
    StepCompleted,
    StepEvent,
    StepFailed,
    StepNotTaken,
    StepOutcome,
    StepReply,
    StepSkipped,
    StepStarted,
    StepTried,
    StepUnknown,
    StepUnrecorded,
)
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.texts import MAX_ERROR_BYTES, bounded
from functions.pattern.waits import begun, never_begun, not_taken, unknown

#: The state of a step that is done, in each direction.
DONE = {Direction.DO: StepState.COMPLETED, Direction.UNDO: StepState.UNDONE}


def step_changed(record: TaskRecord, event: StepEvent, now: datetime) -> TaskRecord | Refused:
    """Apply an Agent's event to a task that its Scheduler holds."""
    step = record.step(event.step)
    if isinstance(event, StepReply):
        if isinstance(event, StepNotTaken) and event.start_id in step.not_taken:
            return record  # it came before
        refusal = _of_another_start(step, event)
        if refusal is not None:
            return Refused(refusal)
    if step.state is DONE[record.task.direction] and not isinstance(event, StepFailed):
        return record  # it came before
    if isinstance(event, StepOutcome) and _is_known(record, step, event):
        return record
    return _changed(record, event, now)


def _is_known(record: TaskRecord, step: StepRecord, event: StepOutcome) -> bool:
    """Tell whether an outcome of this very start stands already: it was told again."""
    if record.task.direction is Direction.UNDO or step.start_id != event.start_id:
        return False
    is_refused = step.state is StepState.FAILED and not step.in_doubt
    return (is_refused and isinstance(event, StepFailed)) or (
        step.state is StepState.UNRECORDED and isinstance(event, StepUnrecorded)
    )


def _changed(record: TaskRecord, event: StepEvent, now: datetime) -> TaskRecord | Refused:
    match event:
        case StepStarted():
            return _start(record, event, now)
        case StepSkipped():
            return _skip(record, event, now)
        case StepCompleted() | StepFailed() | StepUnrecorded() | StepNotTaken():
            return _too_late(record, event, now) or _outcome(record, event, now)
        case StepUnknown():
            return _unknown(record, event, now)
        case StepBroken():
            return _break(record, event, now)
        case StepTried():
            return _tried(record, event, now)
        case _:
            assert_never(event)


def _start(record: TaskRecord, event: StepStarted, now: datetime) -> TaskRecord | Refused:
    step = record.step(event.step)
    under_way = UNDER_WAY[record.task.direction]
    if step.state is under_way and step.epoch == event.epoch and not step.was_not_taken:
        return record if step.start_id == event.start_id else Refused(RefusalReason.STARTED)
    if record.task.decision is not None:
        return Refused(RefusalReason.DECIDED)
    before = step.not_taken if step.epoch == event.epoch else ()
    if event.start_id in before:
        return Refused(RefusalReason.NOT_TAKEN)
    started = replace(
        step,
        state=under_way,
        complete_by=event.complete_by,
        epoch=event.epoch,
        token=event.token,
        activity=event.activity,
        start_id=event.start_id,
        attempts=None,
        error=None,
        handed_over=None,
        asked_at=now if step.shape.via is Way.QUEUE else None,
        not_taken=before,
        turned_away_at=None,
    )
    # Who begins a wait has to let go of the task in time.
    start_by = (step.shape.via.waits and record.task.complete_by) or event.complete_by
    if record.task.direction is Direction.DO:
        if step.never_twice:
            return Refused(RefusalReason.NEVER_TWICE)
        started = replace(started, started_at=_dispatched_at(record, now))
        if step.shape.via.waits:
            return _advanced(record.with_step(begun(started, now)), now, start_by)
    elif not step.needs_undo:
        raise illegal(record, event)
    return moved(record.with_step(started), now, start_by)


def _dispatched_at(record: TaskRecord, now: datetime) -> datetime:
    """Put a dispatch after those before it, whatever the hosts' clocks say: undo goes by this order."""
    before = [step.started_at for step in record.steps if step.started_at is not None]
    return max([now, *(time + timedelta(microseconds=1) for time in before)])


def _of_another_start(step: StepRecord, event: StepReply) -> RefusalReason | None:
    if event.start_id in step.not_taken and event.start_id != step.start_id:
        return RefusalReason.NOT_TAKEN
    return RefusalReason.WRONG_TOKEN if is_forged(step, event) else None


def is_forged(step: StepRecord, event: StepReply) -> bool:
    """Tell whether a reply lacks the token that went with the step's request."""
    return not hmac.compare_digest((step.token or "").encode(), (event.token or "").encode())


def _skip(record: TaskRecord, event: StepSkipped, now: datetime) -> TaskRecord | Refused:
    """Skip a step that was never dispatched; the condition of a dispatched one was judged before."""
    step = record.step(event.step)
    if step.state is StepState.SKIPPED:
        return record  # it came before
    if record.task.decision is not None:
        return Refused(RefusalReason.DECIDED)
    if record.task.direction is Direction.UNDO or step.state is not StepState.NOT_STARTED:
        raise illegal(record, event)
    return _advanced(record.with_step(_ended(step, StepState.SKIPPED, now)), now, event.start_by)


def _advanced(record: TaskRecord, now: datetime, start_by: datetime, *, is_reply: bool = False) -> TaskRecord:
    """Go on with what follows; beside a step of hours, the Scheduler that is told of a reply may be gone."""
    is_ready = is_reply and bool(ready_steps(record))
    return known_end(record, now, start_by) or moved(record, now, start_by, is_ready=is_ready)


def _outcome(record: TaskRecord, event: StepReply, now: datetime) -> TaskRecord:
    match event:
        case StepCompleted():
            return _complete(record, event, now)
        case StepFailed():
            return _fail(record, event, now)
        case StepUnrecorded():
            return _unrecorded(record, event, now)
        case StepNotTaken():
            return _not_taken(record, event, now)
        case _:
            assert_never(event)


def _too_late(record: TaskRecord, event: StepReply, now: datetime) -> Refused | None:
    """Refuse what comes late. Raises `IllegalTransitionError` for a step that is not under way."""
    step = record.step(event.step)
    under_way = step.state is UNDER_WAY[record.task.direction] and step.epoch == event.epoch
    ran_twice = not under_way and event.start_id is not None and event.start_id == step.start_id
    if ran_twice and step.epoch == event.epoch:
        return Refused(RefusalReason.LATE)  # the other outcome of this start came first
    if not under_way or step.complete_by is None:
        raise illegal(record, event)
    return Refused(RefusalReason.LATE) if now > step.complete_by else None


def _not_taken(record: TaskRecord, event: StepNotTaken, now: datetime) -> TaskRecord:
    """Have a step be dispatched again; what may fail is gone on without when its epoch has none left."""
    step = not_taken(record.step(event.step))
    again = record.with_step(step)
    if record.task.direction is Direction.DO and step.may_fail and waited_in_vain(step, again):
        again = record.with_step(never_begun(step, now))
    return _advanced(again, now, event.start_by, is_reply=True)


def _complete(record: TaskRecord, event: StepCompleted, now: datetime) -> TaskRecord:
    step = record.step(event.step)
    if record.task.direction is Direction.UNDO:
        undone = record.with_step(_ended(step, StepState.UNDONE, now))
        if any(each.needs_undo for each in undone.steps):
            return moved(undone, now, event.start_by)
        return compensated(undone, now)
    completed = record.with_step(replace(_ended(step, StepState.COMPLETED, now), result=event.result))
    return _advanced(completed, now, event.start_by, is_reply=event.token is not None)


def _fail(record: TaskRecord, event: StepFailed, now: datetime) -> TaskRecord:
    stopped = _stopped(record, event, now, StepState.FAILED)
    if stopped.step(event.step).settled:
        return _advanced(stopped, now, event.start_by, is_reply=event.token is not None)
    return decide(stopped, refusal(stopped, stopped.step(event.step)), now, event.start_by)


def _unknown(record: TaskRecord, event: StepUnknown, now: datetime) -> TaskRecord:
    """Go on without a step of unknown outcome, which is undone later all the same."""
    step = record.step(event.step)
    is_ours = step.state is StepState.RUNNING and step.start_id == event.start_id
    if not step.may_fail or not is_ours:
        return record
    return _advanced(record.with_step(unknown(step, event.fault, now)), now, event.start_by)


def _unrecorded(record: TaskRecord, event: StepUnrecorded, now: datetime) -> TaskRecord:
    """Hold a task whatever its remedy: what was done stands, and an operator has to give its result."""
    if record.task.direction is Direction.UNDO:
        raise illegal(record, event)
    return _held(record, event, now, StepState.UNRECORDED)


def _break(record: TaskRecord, event: StepBroken, now: datetime) -> TaskRecord:
    """Hold a task that a defect stops: neither another try nor an undo mends that."""
    step = record.step(event.step)
    if record.task.direction is Direction.UNDO:
        is_open = step.needs_undo
    else:
        is_open = step.state in {StepState.NOT_STARTED, StepState.RUNNING}
    if not is_open:
        return record
    # What may fail would count as settled, and would not run when the defect is mended.
    return _held(record, event, now, StepState.NOT_STARTED if step.may_fail else StepState.FAILED)


def _held(
    record: TaskRecord, event: StepUnrecorded | StepBroken, now: datetime, state: StepState
) -> TaskRecord:
    stopped = _stopped(record, event, now, state)
    return decide(stopped, stopped_by(stopped, stopped.step(event.step), None), now, event.start_by)


def _stopped(
    record: TaskRecord, event: StepFailed | StepUnrecorded | StepBroken, now: datetime, state: StepState
) -> TaskRecord:
    """Record why a step goes no further; an undo stays under way."""
    step, is_undo = record.step(event.step), record.task.direction is Direction.UNDO
    stopped = step if is_undo else _ended(step, state, now)
    return record.with_step(replace(stopped, error=bounded(event.error, MAX_ERROR_BYTES)))


def _tried(record: TaskRecord, event: StepTried, now: datetime) -> TaskRecord:
    """Note how often a step under way was tried in vain, also when its time is over.

    Of one that its Agent has ended, nothing more comes: what was left for its request to wait is not waited.
    """
    step = record.step(event.step)
    is_ours = step.state.is_under_way and step.start_id == event.start_id
    if not is_ours:
        return record
    if event.attempts > (step.attempts or 0):
        step = replace(step, attempts=event.attempts, error=bounded(event.fault, MAX_ERROR_BYTES))
    until = event.ended_by
    if until is not None and step.complete_by is not None and until < step.complete_by:
        return moved(record.with_step(replace(step, complete_by=until)), now, until)
    return record if step is record.step(event.step) else record.with_step(step)


def _ended(step: StepRecord, state: StepState, now: datetime) -> StepRecord:
    return replace(step, state=state, finished_at=now, error=None)


def illegal(record: TaskRecord, event: object) -> IllegalTransitionError:
    """Make the error for an event that no rule allows in this state."""
    task = record.task
    return IllegalTransitionError(
        f"task {task.order_id} ({task.process_state}, epoch {task.epoch}) can't take {event!r}"
    )
