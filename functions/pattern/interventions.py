"""What is done to a task from outside: recovery and giving up, resubmission, undo, answers, cancelling."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from functions.pattern.decisions import decide, due_by, in_question, is_awaited, known_end
from functions.pattern.epochs import finished, next_epoch
from functions.pattern.events import (
    Cancelled,
    DecisionDue,
    Eased,
    Extended,
    FoundDone,
    FoundNotDone,
    GivenUp,
    Intervention,
    OperatorAnswer,
    OperatorEvent,
    Postponed,
    Recovered,
    Resubmitted,
    Resumed,
    UndoRequested,
)
from functions.pattern.operator_events import ResultGiven
from functions.pattern.records import Decision, Extension, Task, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.step_records import StepRecord

_SUPERVISOR = "supervisor"
_OVERDUE = "its complete-by time passed"
_LATE_IN_CROWD = "its complete-by time passed while many were late together"


def supervised(record: TaskRecord, event: Intervention | Eased, now: datetime) -> TaskRecord | Refused:
    """Apply what the Supervisor decided; a task that has gone on since then stays with its Scheduler."""
    if isinstance(event, Postponed):
        return _postponed(record, event, now)
    if now < due_by(record, now) or _is_known_by_now(record, event):
        return Refused(RefusalReason.NOT_OVERDUE)
    ended = known_end(record, now, event.until if isinstance(event, Extended) else event.start_by)
    if ended is not None:
        return ended
    if isinstance(event, Extended | Resumed):
        return _eased(record, event, now)
    return _intervened(record, event, now)


def _intervened(
    record: TaskRecord, event: Recovered | GivenUp | DecisionDue, now: datetime
) -> TaskRecord | Refused:
    match event:
        case Recovered():
            return _next_by_supervisor(record, event, now, EpochEnd.RECOVERED)
        case GivenUp():
            held = event.hold or record.order.shape.on_exhausted is Remedy.HOLD
            decision = Decision(
                ended_by=None if held else EpochEnd.EXHAUSTED,
                who=_SUPERVISOR,
                reason=event.reason,
                traceparent=event.traceparent,
            )
            return decide(record, decision, now, event.start_by)
        case DecisionDue():
            return Refused(RefusalReason.NOT_OVERDUE)  # what was known counts for nothing by now
        case _:
            assert_never(event)


def _next_by_supervisor(
    record: TaskRecord, event: Recovered | Resumed, now: datetime, ended_by: EpochEnd
) -> TaskRecord:
    """Open the next epoch, which may have to wait; only a recovery counts."""
    is_counted = isinstance(event, Recovered)
    return next_epoch(
        record,
        now,
        ended_by=ended_by,
        who=_SUPERVISOR,
        reason=_OVERDUE if is_counted else _LATE_IN_CROWD,
        start_by=event.start_by,
        traceparent=event.traceparent,
        failure_count=record.task.failure_count + int(is_counted),
        not_before=event.not_before,
    )


def _eased(record: TaskRecord, event: Eased, now: datetime) -> TaskRecord | Refused:
    """Give a task more time: who holds it keeps it, and whoever is asked for again is of the same epoch."""
    if isinstance(event, Resumed):
        resumed = _next_by_supervisor(record, event, now, EpochEnd.RESUMED)
        return replace(resumed, task=replace(resumed.task, extended=_with_lost_time(record, event, now)))
    if event.asks and record.task.process_state is not ProcessState.PENDING:
        return Refused(RefusalReason.NOT_OVERDUE)  # it was claimed meanwhile
    task, before = record.task, record.task.extended
    extension = Extension(
        until=event.until,
        seconds=(event.until - now).total_seconds() + (0 if before is None else before.seconds),
        times=1 + (0 if before is None else before.times),
        behind=event.behind,
        cause=event.cause,
        asked=int(event.asks) + (0 if before is None else before.asked),
        at=now,
    )
    changed = replace(task, complete_by=event.until, due_at=event.until, extended=extension, updated_at=now)
    return replace(record, task=changed)


def _with_lost_time(record: TaskRecord, event: Resumed, now: datetime) -> Extension:
    before = record.task.extended or Extension(
        until=now, seconds=0, times=0, behind=event.behind, cause=event.cause, at=now
    )
    return replace(before, seconds=before.seconds + event.lost.total_seconds(), at=now)


def _is_known_by_now(record: TaskRecord, event: Intervention | Eased) -> bool:
    """Tell whether what the Supervisor held the task for became known after it looked."""
    held = isinstance(event, GivenUp) and event.hold
    return held and record.task.direction is Direction.DO and in_question(record) is None


def _postponed(record: TaskRecord, event: Postponed, now: datetime) -> TaskRecord:
    due_at = due_by(record, now)
    if not record.task.is_handed_back:  # as it may have been since the Supervisor looked
        due_at = min(event.due_at, due_at)
    if due_at == record.task.due_at:
        return record
    return replace(record, task=replace(record.task, due_at=due_at, updated_at=now))


def operated(record: TaskRecord, event: OperatorEvent, now: datetime) -> TaskRecord | Refused:
    """Apply what an operator decided, or found out, about a task in `Error`."""
    if record.task.process_state is not ProcessState.ERROR:
        waits = record.task.decision is not None
        return Refused(RefusalReason.OUTCOME_AWAITED if waits else RefusalReason.NOT_IN_ERROR)
    if is_awaited(record, now):  # held by a host whose clock is ahead
        return Refused(RefusalReason.OUTCOME_AWAITED)
    match event:
        case Resubmitted():
            refusal = _question_first(record)
            return refusal or _again(record, event, now, EpochEnd.RESUBMITTED)
        case UndoRequested():
            ended_by = EpochEnd.UNDO_REQUESTED
            decision = Decision(
                ended_by=ended_by, who=event.who, reason=event.reason, traceparent=event.traceparent
            )
            return decide(record, decision, now, event.start_by)
        case FoundDone() | FoundNotDone():
            return _answered(record, event, now)
        case ResultGiven():
            refusal = _question_first(record)
            return refusal or _skipped(record, event, now)
        case _:
            assert_never(event)


def cancelled(record: TaskRecord, event: Cancelled, now: datetime) -> TaskRecord | Refused:
    """Have a task undone. One that is being undone already, or will be, stays as it is."""
    task = record.task
    never = _never_cancelled(record, event)
    if never is not None:
        return Refused(never)
    is_back = task.direction is Direction.UNDO and task.process_state is not ProcessState.ERROR
    if is_back and not _has_it_go_on(event, task):
        return record
    if task.decision is not None and task.decision.ended_by is not None:
        return record
    refusal = _gone_on_since(event.seen, task)
    if not event.by_operator:
        refusal = refusal or _not_for_its_caller(record, now)
    if refusal is not None:
        return Refused(refusal)
    if task.process_state is ProcessState.ERROR and is_awaited(record, now):
        return Refused(RefusalReason.OUTCOME_AWAITED)
    decision = Decision(
        ended_by=EpochEnd.CANCELLED, who=event.who, reason=event.reason, traceparent=event.traceparent
    )
    undecided = replace(record, task=replace(task, decision=None))  # it may have been about to be held
    return decide(undecided, decision, now, event.start_by)


def _has_it_go_on(event: Cancelled, task: Task) -> bool:
    """Tell whether an operator cancels what one has parked on its way back: nobody else unparks it."""
    return event.seen is not None and task.is_parked_by_operator


def _never_cancelled(record: TaskRecord, event: Cancelled) -> RefusalReason | None:
    """Say why a task can't be cancelled, whether it is being undone already or not."""
    if event.by_operator:
        return RefusalReason.FINISHED if record.task.process_state is ProcessState.COMPENSATED else None
    return None if record.order.parent is None else RefusalReason.CHILD


def _gone_on_since(seen: Task | None, task: Task) -> RefusalReason | None:
    """Refuse what was meant for a task that has ended, or begun another epoch, since it was seen."""
    if seen is None or (seen.epoch, seen.finished_at) == (task.epoch, task.finished_at):
        return None
    return RefusalReason.STALE_EPOCH


def _not_for_its_caller(record: TaskRecord, now: datetime) -> RefusalReason | None:
    """Say why a caller can't cancel a task."""
    task, within = record.task, record.order.shape.cancel_within
    if task.process_state is ProcessState.ERROR:
        return RefusalReason.FINISHED
    if task.finished_at is None:
        return RefusalReason.PARKED_BY_OPERATOR if task.is_parked_by_operator else None
    in_time = within is not None and now <= task.finished_at + timedelta(seconds=within)
    return None if in_time else RefusalReason.NOT_CANCELLABLE


def _question_first(record: TaskRecord) -> Refused | None:
    """Refuse to go on while it is not known what was done."""
    if in_question(record) is None:
        return None
    if any(step.never_twice for step in record.steps):
        return Refused(RefusalReason.OUTCOME_UNKNOWN)
    return Refused(RefusalReason.KNOWN_DONE)


def _answered(record: TaskRecord, event: OperatorAnswer, now: datetime) -> TaskRecord | Refused:
    """Take an operator's answer; the task goes on when no other is missing."""
    step = next((step for step in record.steps if step.name == event.step), None)
    is_open = step is not None and (step.never_twice or step.state is StepState.UNRECORDED)
    if step is None or not is_open or record.task.direction is Direction.UNDO:
        return Refused(RefusalReason.NOT_IN_QUESTION)
    if isinstance(event, FoundDone):
        done = replace(step, state=StepState.COMPLETED, result=event.result, error=None, finished_at=now)
        return _again(record, event, now, EpochEnd.FOUND_DONE, done)
    if step.state is StepState.UNRECORDED:
        return Refused(RefusalReason.KNOWN_DONE)
    not_done = replace(step, state=StepState.NOT_STARTED, error=None)
    return _again(record, event, now, EpochEnd.FOUND_NOT_DONE, not_done)


def _skipped(record: TaskRecord, event: ResultGiven, now: datetime) -> TaskRecord | Refused:
    """Complete a step by a result that an operator gives; if it was dispatched, an undo covers it as before.

    It was refused, a defect stopped it, or nobody knows what came of it and it may be repeated. What may fail
    was gone on without, unless a defect stopped it.
    """
    step = next((step for step in record.steps if step.name == event.step), None)
    if step is None or record.task.direction is Direction.UNDO:
        return Refused(RefusalReason.NOT_FAILED)
    is_refused = step.state is StepState.FAILED and not step.settled
    is_unknown = step.state is StepState.RUNNING and not step.is_waiting
    is_broken = step.state is StepState.NOT_STARTED and step.error is not None
    if not (is_refused or is_unknown or is_broken):
        return Refused(RefusalReason.NOT_FAILED)
    given = replace(step, state=StepState.COMPLETED, result=event.result, error=None, finished_at=now)
    return _again(record, event, now, EpochEnd.RESULT_GIVEN, given)


def _again(
    record: TaskRecord,
    event: Resubmitted | OperatorAnswer | ResultGiven,
    now: datetime,
    ended_by: EpochEnd,
    answered: StepRecord | None = None,
) -> TaskRecord:
    """Open the next epoch, in which what failed is as if it had never been begun, unless it may fail."""
    opened = next_epoch(
        record,
        now,
        ended_by=ended_by,
        who=event.who,
        reason=event.reason,
        start_by=event.start_by,
        traceparent=event.traceparent,
    )
    if answered is not None:
        opened = opened.with_step(answered)
    question = in_question(opened)
    if question is not None:
        return finished(opened, ProcessState.ERROR, now, error=question)
    steps = tuple(
        replace(step, state=StepState.NOT_STARTED, error=None)
        if step.state is StepState.FAILED and not step.settled
        else step
        for step in opened.steps
    )
    again = replace(opened, steps=steps)
    return known_end(again, now, event.start_by) or again
