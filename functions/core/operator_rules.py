"""The rules of operators, callers and parents: suspend, resume, cancel, resubmit, undo, and verdicts.

Times are UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from functions.core import task_events as events
from functions.core.deadline_rules import extend_deadlines, postpone
from functions.core.derive import is_settled, needs_undo, questions
from functions.core.epoch_rules import add_child_ended, next_epoch, suspend
from functions.core.record import (
    UNDOING_ENDS,
    WAITING_TYPES,
    Decision,
    Direction,
    EpochEnd,
    Operation,
    OperationState,
    RuleSettings,
    StepSpec,
    StepType,
    TaskRecord,
    replace,
)
from functions.core.task_events import Canceller, Rejection, Verdict

#: A wait with less time left begins again with its task: its version may have been missing before.
_SHORT = timedelta(minutes=1)


def suspend_task(record: TaskRecord, event: events.Suspended, now: datetime) -> TaskRecord | Rejection:
    """Start no further step. Calls under way end, and their outcomes count."""
    if record.finished_at is not None:
        return Rejection.FINISHED
    if event.epoch is not None and event.epoch != record.epoch:
        return Rejection.STALE_EPOCH
    return suspend(record, event.reason, now, by_operator=event.by_operator)


def resume(record: TaskRecord, event: events.Resumed, now: datetime) -> TaskRecord | Rejection:
    """End a suspension of the same kind."""
    suspension = record.suspension
    if suspension is None or suspension.by_operator is not event.by_operator:
        return Rejection.NOT_OPEN
    return _end_suspension(record, suspension.since, now)


def _end_suspension(record: TaskRecord, since: datetime, now: datetime) -> TaskRecord:
    """End a suspension. Deadlines move by its length; calls that became overdue start again, uncounted."""
    length = now - since
    record = extend_deadlines(replace(record, suspension=None), [(since, now)])
    record = replace(record, deferred_since=postpone(record.deferred_since, length))
    for spec, operation in record.operations:
        moved = replace(operation, find_by=postpone(operation.find_by, length))
        is_call = spec.type not in WAITING_TYPES
        is_once = spec.must_not_repeat(record.direction)
        if is_call and not is_once and operation.is_overdue(now):
            moved = moved.restartable(now, "suspended")
        record = record.with_operation(spec.name, moved)
    if record.expires_at is not None and record.expires_at < now + _SHORT:
        record = replace(record, expires_at=now + timedelta(seconds=record.order.complete_within or 0))
    return _extend_waits(record, since, now)


def _extend_waits(record: TaskRecord, since: datetime, now: datetime) -> TaskRecord:
    """Move the deadlines of steps that wait for an event or a child. A timer ends at its time."""
    for spec, operation in record.operations:
        if spec.type in WAITING_TYPES - {StepType.TIMER} and operation.state is OperationState.RUNNING:
            left = (operation.complete_by or now) - since
            end = now + (timedelta(seconds=spec.complete_within) if left < _SHORT else left)
            record = record.with_operation(spec.name, replace(operation, complete_by=end))
    return record


def cancel(record: TaskRecord, event: events.Cancelled, now: datetime) -> TaskRecord | Rejection:
    """Undo the task in any state that its canceller may end. An undo needs no deployed version."""
    rejection = _check_caller(record, now) if event.by is Canceller.CALLER else None
    if rejection is not None:
        return rejection
    suspension = record.suspension
    is_undoing = record.direction is Direction.UNDO
    if suspension and (event.by is Canceller.OPERATOR if suspension.by_operator else not is_undoing):
        record = _end_suspension(record, suspension.since, now)
    if is_undoing and record.finished_at and record.error is None and event.by is Canceller.PARENT:
        return add_child_ended(record, now)  # the parent may have missed the first message
    decided = record.decision
    # A timeout waits for an unknown outcome, so a cancel replaces it.
    ends = UNDOING_ENDS - {EpochEnd.TIMED_OUT}
    if is_undoing or (decided is not None and decided.end in ends and not decided.is_derived):
        return record
    decision = Decision(end=EpochEnd.CANCELLED, reason=event.reason, who=event.who)
    return replace(record, decision=decision)


def _check_caller(record: TaskRecord, now: datetime) -> Rejection | None:
    is_suspended = record.suspension is not None and record.suspension.by_operator
    if record.order.parent is not None or record.error is not None or is_suspended:
        return Rejection.NOT_CANCELLABLE
    if record.finished_at is None or record.direction is Direction.UNDO:
        return None
    within = record.order.cancel_within
    is_in_time = within is not None and now <= record.finished_at + timedelta(seconds=within)
    return None if is_in_time else Rejection.NOT_CANCELLABLE


type _InError = events.Resubmitted | events.UndoRequested | events.Answered


def act_in_error(
    record: TaskRecord, event: _InError, now: datetime, settings: RuleSettings
) -> TaskRecord | Rejection:
    """Resume a task in `Error`, undo it, or record a verdict on a step.

    The event counts in the epoch that the operator saw, and only in `Error`. A repeated verdict could
    otherwise answer a later question. After a verdict the task resumes unless another one is missing.
    """
    if event.epoch != record.epoch:
        return Rejection.STALE_EPOCH
    if record.error is None:
        return Rejection.NOT_IN_ERROR
    if isinstance(event, events.UndoRequested):
        if record.direction is Direction.UNDO:
            return Rejection.NOT_OPEN
        end = EpochEnd.UNDO_REQUESTED
        return replace(record, decision=Decision(end=end, reason=event.reason, who=event.who))
    if isinstance(event, events.Resubmitted):
        end = EpochEnd.RESUBMITTED
        changed = _resubmit(record, event)
    else:
        end = EpochEnd.ANSWERED
        changed = _answer(record, event, now)
    if isinstance(changed, Rejection):
        return changed
    return _reopen(changed, Decision(end=end, reason=event.reason, who=event.who), now, settings)


def _resubmit(record: TaskRecord, event: events.Resubmitted) -> TaskRecord | Rejection:
    """Return the task, in which steps without a recorded result can start again.

    The step `rebuild` begins another generation, with a new request and effect key. A repeatable step whose
    result is missing starts again with the same key, and is never rebuilt.
    """
    by_name = record.order.by_name
    for name in questions(record):
        spec, do = by_name[name], record.do(name)
        if do.state is OperationState.UNKNOWN or spec.type in WAITING_TYPES or not spec.idempotent:
            return Rejection.OUTCOME_UNKNOWN
        again = replace(do, state=OperationState.NOT_STARTED, error=None)
        record = record.with_operation(name, replace(again, unknown_starts=do.unknown_starts + 1))
    if event.rebuild is not None:
        rebuilt = by_name.get(event.rebuild)
        step = record.step(event.rebuild)
        if rebuilt is None or record.direction is Direction.UNDO or not can_rebuild(rebuilt, step.do):
            return Rejection.NOT_OPEN
        record = record.with_step(step.with_new_do())
    return record


def can_rebuild(spec: StepSpec, do: Operation) -> bool:
    """Return whether no request under the step's effect key can take effect any more.

    A queue may hold a copy of a request, so the request of a queue step is never rebuilt. A child task that
    has not ended in time may still end.
    """
    is_rebuilt = spec.type in {StepType.ACTIVITY, StepType.WORKFLOW}
    return is_rebuilt and do.state is OperationState.REFUSED and do.unknown_starts == 0


def _reopen(record: TaskRecord, decision: Decision, now: datetime, settings: RuleSettings) -> TaskRecord:
    """Open the next epoch with new bounds of time, no failure counted, and the refused steps not started.

    A workflow step whose child was undone begins another generation with the recorded request.
    """
    record = _extend_waits(record, record.finished_at or now, now)
    limit = record.order.complete_within
    expires_at = None if limit is None else now + timedelta(seconds=limit)
    opened = replace(next_epoch(record, decision, now, settings), failures=0, expires_at=expires_at)
    opened = replace(opened, stops=((record.order.submitted_at, now),))  # no earlier hold extends them
    if questions(opened):
        return opened  # the task stays in `Error`
    is_do = record.direction is Direction.DO
    steps = dict(opened.steps)
    for spec, operation in opened.operations:
        step = steps[spec.name]
        is_refused = operation.state is OperationState.REFUSED
        if is_do and is_settled(spec, operation):
            continue
        is_new = is_do and spec.type is StepType.WORKFLOW and can_rebuild(spec, operation)
        again = replace(operation, state=OperationState.NOT_STARTED, error=None) if is_refused else operation
        defer_by = None if operation.gate is None else now + settings.defer_for
        again = replace(again, defer_by=defer_by, defer_left=None)
        changed = replace(step, do=again) if is_do else replace(step, undo=again)
        steps[spec.name] = step.with_new_do(operation.request) if is_new else changed
    return replace(opened, steps=steps)


def _answer(record: TaskRecord, event: events.Answered, now: datetime) -> TaskRecord | Rejection:
    """Return the task after a verdict that applies to the state of its step."""
    spec = record.order.by_name.get(event.step)
    if spec is None:
        return Rejection.NOT_OPEN
    step = record.step(event.step)
    if record.direction is Direction.UNDO:
        state = {Verdict.UNDONE: OperationState.DONE, Verdict.LEFT: OperationState.SKIPPED}.get(event.verdict)
        is_over = step.undo.state in {OperationState.DONE, OperationState.SKIPPED}
        if state is None or is_over or not needs_undo(spec, step):
            return Rejection.NOT_OPEN
        note = f"{event.verdict}: {event.who}: {event.reason}"
        return record.with_step(replace(step, undo=step.undo.ended(state, now), note=note))
    do = step.do
    in_question = do.state in {OperationState.UNKNOWN, OperationState.DONE_WITHOUT_RESULT}
    is_broken = do.state is OperationState.NOT_STARTED and do.error is not None
    is_failed = is_broken or (do.state is OperationState.REFUSED and not spec.may_fail)
    if event.verdict is Verdict.DONE and (in_question or is_failed):
        return record.with_operation(spec.name, do.ended(OperationState.DONE, now, result=event.result))
    if event.verdict is Verdict.NOT_DONE and do.state is OperationState.UNKNOWN:
        not_done = replace(do.with_finds(0), state=OperationState.NOT_STARTED, error=None)
        return record.with_operation(spec.name, not_done)
    return Rejection.NOT_OPEN
