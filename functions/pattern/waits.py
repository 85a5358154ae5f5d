"""Steps that wait for an event, a time or a task: how a wait begins and ends, and how it costs nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.decisions import decide, known_end, stopped_by
from functions.pattern.epochs import (
    FINAL,
    awaited,
    children_handed_over,
    first_end,
    handed_back,
    is_busy,
    is_exhausted,
    moved,
    next_run,
)
from functions.pattern.identity import StepName
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, ProcessState, StepState, Way
from functions.pattern.step_records import OUTCOME_UNKNOWN, StepRecord
from functions.pattern.texts import MAX_ERROR_BYTES, bounded
from functions.pattern.wait_events import EventReceived, HandedBack, PutOff, TurnedAway, WaitsEnded

#: A timer may be set so far ahead.
LONGEST_WAIT = timedelta(days=366)
#: An event whose teller was turned away is awaited for so long again, at most for as long as at first.
_TO_TRY_AGAIN = timedelta(hours=1)

_NO_RESULT = b"{}"


def over(record: TaskRecord, now: datetime) -> tuple[StepName, ...]:
    """Name the steps whose time has passed, and that end by it: waits, and what may fail.

    An undo is asked for anew in each epoch, with a time of its own.
    """
    if record.task.decision is not None:
        return ()
    is_undo = record.task.direction is Direction.UNDO
    ending = {step.name for step in awaited(record) if not is_undo or step.epoch == record.task.epoch}
    if not is_undo:
        ending |= {step.name for step in record.steps if step.may_fail and step.state is StepState.RUNNING}
    return tuple(
        step.name
        for step in record.steps
        if step.name in ending and step.complete_by is not None and step.complete_by <= now
    )


def waits_end(record: TaskRecord) -> datetime | None:
    """Tell when the first of a task's waits ends by itself; None for none, and once an end is decided.

    So does what may fail and was begun in an epoch before: clocks differ, so its time may be still to come.
    """
    if record.task.decision is not None:
        return None
    is_undo = record.task.direction is Direction.UNDO
    older = () if is_undo else (step for step in record.steps if step.may_fail and _is_left(step, record))
    return min((each.complete_by for each in (*awaited(record), *older) if each.complete_by), default=None)


def _is_left(step: StepRecord, record: TaskRecord) -> bool:
    return step.state is StepState.RUNNING and step.epoch != record.task.epoch


def begun(step: StepRecord, now: datetime) -> StepRecord:
    """Give a wait that has just begun; its event may have come before, and its time may have passed."""
    if step.received is not None:
        return completed(step, None, now)
    is_past = step.shape.via is Way.TIMER and step.complete_by is not None and step.complete_by <= now
    return completed(step, _NO_RESULT, now) if is_past else step


def waits_ended(record: TaskRecord, event: WaitsEnded, now: datetime) -> TaskRecord | Refused:
    """End what is over, and have the task go on: with its Scheduler, or with the next run.

    Not an event whose teller was turned away, which is awaited anew: no deployment costs it its time.
    """
    if event.scheduler is not None and event.scheduler != record.task.locked_by:
        return Refused(RefusalReason.NOT_HOLDER)
    ended = tuple(map(record.step, over(record, now)))
    if not ended:
        return Refused(RefusalReason.NOT_OVERDUE)
    if record.task.direction is Direction.UNDO:
        return _undo_expired(record, ended[0].name, now, event.start_by)
    for step in ended:
        after = awaited_anew(step, now, event.start_by) if step.turned_away_at else _expired(step, now)
        record = record.with_step(after)
    until = waits_end(record)
    if record.task.is_handed_back and until is not None and all(step.turned_away_at for step in ended):
        return handed_back(record, now, until)
    is_held = event.scheduler is not None or is_busy(record)
    return _gone_on(record, now, event.start_by, is_held=is_held)


def let_go(record: TaskRecord, event: HandedBack | PutOff, now: datetime) -> TaskRecord | Refused:
    """Take a task from its Scheduler, with which there is nothing to do now.

    Until a wait ends, the record alone waits. For places at a service, the next run looks later: no time of a
    step or of a wait is lost. Beside a step that is under way, its Scheduler looks later, and keeps it.
    """
    if event.scheduler != record.task.locked_by:
        return Refused(RefusalReason.NOT_HOLDER)
    is_kept = is_busy(record)
    if (
        record.task.decision is not None
        or is_exhausted(record)
        or (is_kept and isinstance(event, HandedBack))
    ):
        return Refused(RefusalReason.BUSY)
    if isinstance(event, PutOff):
        if is_kept:
            in_time = is_in_time(record, event.start_by)
            return record if in_time else moved(record, now, event.start_by, is_ready=True)
        return next_run(children_handed_over(record), now, event.start_by, not_before=event.not_before)
    until = waits_end(record)
    return Refused(RefusalReason.BUSY) if until is None else handed_back(record, now, until)


def is_in_time(record: TaskRecord, until: datetime) -> bool:
    """Tell whether nothing but a step under way has a task be overdue before then."""
    ends, complete_by = first_end(record), record.task.complete_by
    return complete_by is None or complete_by >= (until if ends is None else min(until, ends))


def event_told(record: TaskRecord, event: EventReceived | TurnedAway, now: datetime) -> TaskRecord | Refused:
    """Keep an event, and end the wait for it; the record decides whether it came in time, not the clock.

    Of one that could not be told, it is noted since when.
    """
    step = next((each for each in record.steps if each.name == event.step), None)
    if step is None or step.shape.via is not Way.EVENT:
        return Refused(RefusalReason.NO_SUCH_STEP)
    if isinstance(event, EventReceived) and step.received is not None:
        return record if step.received == event.body else Refused(RefusalReason.OTHER_EVENT)
    refusal = _counts_for_nothing(record, step)
    if refusal is not None:
        return Refused(refusal)
    if isinstance(event, TurnedAway):
        is_noted = step.turned_away_at is not None
        return record if is_noted else record.with_step(replace(step, turned_away_at=now))
    why = None if event.reason is None else bounded(event.reason, MAX_ERROR_BYTES)
    received = replace(step, received=event.body, told_by=event.who, told_why=why, turned_away_at=None)
    if step.state is StepState.NOT_STARTED:
        return record.with_step(received)
    return gone_on(record.with_step(completed(received, None, now)), now, event.start_by)


def awaited_anew(step: StepRecord, now: datetime, start_by: datetime) -> StepRecord:
    """Have an event be awaited for as long again as nobody could tell it: since its time was over, at least.

    Who was turned away has an hour to try again; anybody has until `start_by`.
    """
    ends = step.complete_by or now
    lost = max(now - ends, _TO_TRY_AGAIN if step.turned_away_at else timedelta())
    until = max(ends, start_by, now + min(lost, timedelta(seconds=step.shape.complete_within)))
    return replace(step, complete_by=until, turned_away_at=None)


def _counts_for_nothing(record: TaskRecord, step: StepRecord) -> RefusalReason | None:
    task = record.task
    if task.direction is Direction.UNDO or task.process_state in FINAL - {ProcessState.ERROR}:
        return RefusalReason.FINISHED
    if task.decision is not None:
        return RefusalReason.DECIDED
    is_open = step.state in {StepState.NOT_STARTED, StepState.RUNNING}
    return None if is_open else RefusalReason.STEP_ENDED


def gone_on(record: TaskRecord, now: datetime, start_by: datetime) -> TaskRecord:
    """Have a task go on of which a wait has ended: with its Scheduler, with the next run, or by itself."""
    if record.task.is_handed_back:
        return _gone_on(record, now, start_by, is_held=False)
    is_held = record.task.process_state is ProcessState.PROCESSING
    return _gone_on(record, now, start_by, is_held=True) if is_held else record


def _undo_expired(record: TaskRecord, name: StepName, now: datetime, start_by: datetime) -> TaskRecord:
    """Hold a task whose child is not undone in time."""
    step = record.step(name)
    error = f"its task {record.child(name)} is not undone by {_told(step.complete_by)}"
    held = record.with_step(replace(step, error=error))
    return decide(held, stopped_by(held, held.step(name), None), now, start_by)


def _gone_on(record: TaskRecord, now: datetime, start_by: datetime, *, is_held: bool) -> TaskRecord:
    ended = known_end(record, now, start_by)
    if ended is not None:
        return ended
    if not is_held:
        return next_run(record, now, start_by)
    # Beside a step of hours, too: the message to its Scheduler may be lost.
    return moved(record, now, start_by, is_ready=bool(ready_steps(record)))


def _expired(step: StepRecord, now: datetime) -> StepRecord:
    """End a step whose time has passed, as its shape says."""
    if step.shape.via is Way.TIMER:
        return completed(step, _NO_RESULT, now)
    if step.shape.default is not None:
        return completed(step, step.shape.default.encode(), now)
    if step.shape.via is Way.EVENT:
        return failed(step, f"no event came by {_told(step.complete_by)}", now)
    return unknown(step, step.error, now)


def _told(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def unknown(step: StepRecord, fault: str | None, now: datetime) -> StepRecord:
    """End a step of which nobody knows what came; `fault` went wrong with it last."""
    return failed(step, OUTCOME_UNKNOWN if fault is None else f"{OUTCOME_UNKNOWN} ({fault})", now)


def not_taken(step: StepRecord) -> StepRecord:
    """Give a step whose latest request was not begun, and never will be."""
    starts = step.not_taken if step.start_id is None else (*step.not_taken, step.start_id)
    state = StepState.UNDOING if step.state is StepState.UNDOING else StepState.NOT_STARTED
    return replace(step, state=state, not_taken=starts, attempts=None, error=None)


def never_begun(step: StepRecord, now: datetime) -> StepRecord:
    """End a step that its Agent did not begin, and that its task goes on without."""
    return failed(step, "its request waited too long for its Agent, which did not begin it", now)


def failed(step: StepRecord, error: str, now: datetime) -> StepRecord:
    """End a step without a result."""
    return replace(step, state=StepState.FAILED, finished_at=now, error=bounded(error, MAX_ERROR_BYTES))


def completed(step: StepRecord, result: bytes | None, now: datetime) -> StepRecord:
    """End a step with its result; None where that is what was received."""
    return replace(step, state=StepState.COMPLETED, finished_at=now, error=None, result=result)
