"""Steps that wait for an event or a time: how a wait begins and ends, and how a task waits at no cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.decisions import known_end
from functions.pattern.epochs import FINAL, handed_back, is_busy, is_waiting, moved, next_run
from functions.pattern.identity import StepName
from functions.pattern.records import OUTCOME_UNKNOWN, StepRecord, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, ProcessState, StepState, Way
from functions.pattern.texts import MAX_ERROR_BYTES, bounded
from functions.pattern.wait_events import EventReceived, HandedBack, WaitsEnded

#: A timer may be set so far ahead.
LONGEST_WAIT = timedelta(days=366)

_NO_RESULT = b"{}"


def over(record: TaskRecord, now: datetime) -> tuple[StepName, ...]:
    """Name the steps whose time has passed, and that end by it: waits, and what may fail."""
    if record.task.direction is Direction.UNDO or record.task.decision is not None:
        return ()
    return tuple(
        step.name
        for step in record.steps
        if (is_waiting(step) or (step.may_fail and step.state is StepState.RUNNING))
        and step.complete_by is not None
        and step.complete_by <= now
    )


def waits_end(record: TaskRecord) -> datetime | None:
    """Tell when the first of a task's waits ends by itself; None for none, or in an undo."""
    if record.task.direction is Direction.UNDO:
        return None
    ends = [each.complete_by for each in record.steps if is_waiting(each) and each.complete_by]
    return min(ends, default=None)


def begun(step: StepRecord, now: datetime) -> StepRecord:
    """Give a wait that has just begun; its event may have come before, and its time may have passed."""
    if step.received is not None:
        return _completed(step, None, now)
    is_past = step.shape.via is Way.TIMER and step.complete_by is not None and step.complete_by <= now
    return _completed(step, _NO_RESULT, now) if is_past else step


def waits_ended(record: TaskRecord, event: WaitsEnded, now: datetime) -> TaskRecord | Refused:
    """End what is over, and have the task go on: with its Scheduler, or with the next run."""
    if event.scheduler is not None and event.scheduler != record.task.locked_by:
        return Refused(RefusalReason.NOT_HOLDER)
    ended = over(record, now)
    if not ended:
        return Refused(RefusalReason.NOT_OVERDUE)
    for name in ended:
        record = record.with_step(_expired(record.step(name), now))
    is_held = event.scheduler is not None or is_busy(record)
    return _gone_on(record, now, event.start_by, is_held=is_held)


def hand_back(record: TaskRecord, event: HandedBack, now: datetime) -> TaskRecord | Refused:
    """Take a task from its Scheduler until a wait ends; the record alone waits."""
    until = waits_end(record)
    if event.scheduler != record.task.locked_by:
        return Refused(RefusalReason.NOT_HOLDER)
    if until is None or is_busy(record) or record.task.decision is not None:
        return Refused(RefusalReason.BUSY)
    return handed_back(record, now, until)


def event_received(record: TaskRecord, event: EventReceived, now: datetime) -> TaskRecord | Refused:
    """Keep an event, and end the wait for it; the record decides whether it came in time, not the clock."""
    step = next((each for each in record.steps if each.name == event.step), None)
    if step is None or step.shape.via is not Way.EVENT:
        return Refused(RefusalReason.NO_SUCH_STEP)
    if step.received is not None:
        return record if step.received == event.body else Refused(RefusalReason.OTHER_EVENT)
    refusal = _counts_for_nothing(record, step)
    if refusal is not None:
        return Refused(refusal)
    why = None if event.reason is None else bounded(event.reason, MAX_ERROR_BYTES)
    received = replace(step, received=event.body, told_by=event.who, told_why=why)
    if step.state is StepState.NOT_STARTED:
        return record.with_step(received)
    record = record.with_step(_completed(received, None, now))
    if record.task.is_handed_back:
        return _gone_on(record, now, event.start_by, is_held=False)
    is_held = record.task.process_state is ProcessState.PROCESSING
    return _gone_on(record, now, event.start_by, is_held=True) if is_held else record


def _counts_for_nothing(record: TaskRecord, step: StepRecord) -> RefusalReason | None:
    task = record.task
    if task.direction is Direction.UNDO or task.process_state in FINAL - {ProcessState.ERROR}:
        return RefusalReason.FINISHED
    if task.decision is not None:
        return RefusalReason.DECIDED
    is_open = step.state in {StepState.NOT_STARTED, StepState.RUNNING}
    return None if is_open else RefusalReason.STEP_ENDED


def _gone_on(record: TaskRecord, now: datetime, start_by: datetime, *, is_held: bool) -> TaskRecord:
    ended = known_end(record, now, start_by)
    if ended is not None:
        return ended
    return moved(record, now, start_by) if is_held else next_run(record, now, start_by)


def _expired(step: StepRecord, now: datetime) -> StepRecord:
    """End a step whose time has passed, as its shape says."""
    if step.shape.via is Way.TIMER:
        return _completed(step, _NO_RESULT, now)
    if step.shape.default is not None:
        return _completed(step, step.shape.default.encode(), now)
    if step.shape.via is Way.EVENT:
        return failed(step, f"no event came by {step.complete_by:%Y-%m-%d %H:%M:%S} UTC", now)
    return unknown(step, step.error, now)


def unknown(step: StepRecord, fault: str | None, now: datetime) -> StepRecord:
    """End a step of which nobody knows what came; `fault` went wrong with it last."""
    return failed(step, OUTCOME_UNKNOWN if fault is None else f"{OUTCOME_UNKNOWN} ({fault})", now)


def failed(step: StepRecord, error: str, now: datetime) -> StepRecord:
    """End a step without a result."""
    return replace(step, state=StepState.FAILED, finished_at=now, error=bounded(error, MAX_ERROR_BYTES))


def _completed(step: StepRecord, result: bytes | None, now: datetime) -> StepRecord:
    """End a step with its result; None where that is what was received."""
    return replace(step, state=StepState.COMPLETED, finished_at=now, error=None, result=result)
