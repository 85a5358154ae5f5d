"""The rules of a run and its steps: start, skip, defer, recover, and record or reject outcomes and events.

Times are UTC. Results are JSON.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from functions.core import task_events as events
from functions.core.derive import look_ups, ready_steps
from functions.core.epoch_rules import add_message, add_note, sum_since
from functions.core.gate_rules import UNREACHED
from functions.core.record import (
    UNDOING_ENDS,
    Decision,
    Direction,
    EpochEnd,
    FailurePolicy,
    MessageKind,
    Operation,
    OperationState,
    RuleSettings,
    StepSpec,
    StepType,
    TaskRecord,
    replace,
)
from functions.core.task_events import OutcomeKind, Rejection

#: Earlier starts of a step that the record keeps. Each takes 35 bytes of the step's row.
_MOST_STARTS = 500
#: Look-ups that may be lost before an operator is asked: an Agent behind a queue may be absent.
_LOOK_UPS = {StepType.ACTIVITY: 2, StepType.QUEUE: 1}
#: The start of the error of an optional step whose outcome is unknown.
OUTCOME_UNKNOWN = "outcome unknown"
_EFFECT_REMAINS = "a late outcome reports it as done: it has no undo, so its effect remains"
_DONE_TWICE = "a late outcome reports an earlier start as done, too"
_NOT_DONE_AFTER = "recorded as done, but a late outcome reports that it was not done"
#: Notes on a workflow step that has ended, by its state and whether the end of its child is "done".
_CHILD_NOTES = {
    (OperationState.REFUSED, True): "recorded as refused, but its task was processed",
    (OperationState.DONE, True): "recorded as done by hand, but its task was processed, too",
    (OperationState.DONE, False): "recorded as done, but its task was undone",
}

_DONE = frozenset({OutcomeKind.DONE, OutcomeKind.DONE_WITHOUT_RESULT})
#: The final state that an outcome leads to; a repeated event changes nothing.
_FINAL = {
    OutcomeKind.DONE: OperationState.DONE,
    OutcomeKind.REFUSED: OperationState.REFUSED,
    OutcomeKind.DONE_WITHOUT_RESULT: OperationState.DONE_WITHOUT_RESULT,
}


def _check_ready(record: TaskRecord, epoch: int, step: str) -> Rejection | None:
    if epoch != record.epoch:
        return Rejection.STALE_EPOCH
    if record.finished_at is not None:
        return Rejection.FINISHED
    return None if step in {*ready_steps(record), *look_ups(record)} else Rejection.NOT_READY


def begin_run(record: TaskRecord, event: events.RunStarted, now: datetime) -> TaskRecord | Rejection:
    """Make the repeatable calls that this run started before an interruption ready to start again.

    The unanswered start stays on record as an attempt. Look-ups of this run are lost. Overdue calls are left
    to the Supervisor. The run takes over requests, its own and abandoned ones, that may not have been sent.
    """
    if event.epoch != record.epoch:
        return Rejection.STALE_EPOCH
    for spec, operation in record.operations:
        is_under_way = operation.state is OperationState.RUNNING and not operation.is_overdue(now)
        is_own = operation.run == event.run and spec.type is StepType.ACTIVITY
        is_unsent = operation.send_by is not None and operation.run in {None, event.run}
        if is_under_way and is_own and not spec.must_not_repeat(record.direction):
            record = record.with_operation(spec.name, operation.restartable(now, "interrupted"))
        elif operation.find_by is not None and is_own:
            record = record.with_operation(spec.name, operation.with_finds(operation.finds_left - 1))
        elif is_unsent:
            taken = replace(operation, run=event.run, send_by=event.send_by)
            record = record.with_operation(spec.name, taken)
    return record


def record_sent(record: TaskRecord, event: events.RequestsSent, now: datetime) -> TaskRecord:
    """Record which requests were sent, so that no run repeats them. Unsent ones are due at once."""
    for spec, operation in record.operations:
        ending = "" if operation.state is OperationState.RUNNING else f".{record.epoch}.find"
        start = f"{operation.start_id}{ending}"
        if operation.send_by is not None and start in event.start_ids | event.given_up:
            send_by = None if start in event.start_ids else min(now, operation.send_by)
            record = record.with_operation(spec.name, replace(operation, send_by=send_by))
    return record


def start_step(record: TaskRecord, event: events.StepStarted, now: datetime) -> TaskRecord | Rejection:
    """Record the start of a ready operation, or of its look-up. The request on record is never replaced."""
    operation = record.current(event.step)
    if operation.start_id == event.start_id and not operation.finds_left:
        return record  # a repeated event
    rejection = _check_ready(record, event.epoch, event.step)
    if rejection is not None:
        return rejection
    if operation.finds_left:
        found = replace(operation, run=event.run, find_by=event.complete_by, send_by=event.send_by)
        return replace(record.with_operation(event.step, found), deferred_since=None)
    spec, step = record.order.by_name[event.step], record.step(event.step)
    earlier = () if operation.start_id is None else (*operation.earlier_starts, operation.start_id)
    started = replace(
        operation,
        state=OperationState.RUNNING,
        number=1 + max((each.number or 0 for each in record.steps.values()), default=0),
        unknown_starts=operation.unknown_starts + 1,
        run=event.run,
        start_id=event.start_id,
        earlier_starts=earlier[-_MOST_STARTS:] if spec.must_not_repeat(record.direction) else (),
        request=event.request if operation.request is None else operation.request,
        started_at=now,
        complete_by=event.complete_by,
        send_by=event.send_by,
        finished_at=None,
        error=None,
        is_released=False,
    )
    if spec.type is StepType.EVENT and step.event is not None:
        started = started.ended(OperationState.DONE, now, result=step.event)
    elif spec.type is StepType.TIMER and event.complete_by <= now:
        started = started.ended(OperationState.DONE, now, result="{}")
    record = replace(record.with_operation(event.step, started), deferred_since=None)
    if spec.type is not StepType.WORKFLOW:
        return record
    is_do = record.direction is Direction.DO
    kind = MessageKind.START_CHILD if is_do else MessageKind.CANCEL_CHILD
    body = {"workflow": spec.workflow, "payload": started.request, "step": event.step}
    generation = step.generation(record.direction)
    name = f"{event.step}/{generation}" if generation else event.step
    return add_message(record, kind, now, to=record.order.child(event.step, generation), step=name, body=body)


def pass_over_step(
    record: TaskRecord,
    event: events.StepSkipped | events.StepDeferred | events.StepBroken,
    now: datetime,
    settings: RuleSettings,
) -> TaskRecord | Rejection:
    """Skip a ready step whose condition is false, defer it behind a closed gate, or stop at its defect."""
    rejection = _check_ready(record, event.epoch, event.step)
    if rejection is not None:
        return rejection
    operation = record.current(event.step)
    record = replace(record, deferred_since=None)
    match event:
        case events.StepSkipped():
            return record.with_operation(event.step, operation.ended(OperationState.SKIPPED, now))
        case events.StepDeferred():
            return _defer(record, record.order.by_name[event.step], now, now, settings)
        case events.StepBroken():  # neither a retry nor an undo repairs a definition
            decision = Decision(end=EpochEnd.STOPPED, reason=f"{event.step}: {event.error}")
            broken = replace(operation, error=event.error)
            return replace(record, decision=decision).with_operation(event.step, broken)
        case _:
            assert_never(event)


def reject_result(record: TaskRecord, event: events.ResultRejected) -> TaskRecord | Rejection:
    """Remove a recorded result that the step's model rejects; an operator must supply another one."""
    if event.epoch != record.epoch:
        return Rejection.STALE_EPOCH
    is_decided = record.decision is not None  # by the first of several rejected results
    if record.finished_at is not None or is_decided or record.direction is Direction.UNDO:
        return Rejection.FINISHED
    do = record.do(event.step)
    if do.state is not OperationState.DONE:
        return Rejection.NOT_OPEN
    missing = replace(do, state=OperationState.DONE_WITHOUT_RESULT, result=None, error=event.error)
    return record.with_operation(event.step, missing)


def end_step(
    record: TaskRecord, event: events.StepEnded, now: datetime, settings: RuleSettings
) -> TaskRecord | Rejection:
    """Record an outcome if it is in time, of this epoch, and of the start on record.

    The outcome of a step that must not be repeated counts in any epoch and at any time; that of a look-up,
    unless it is "done", in its epoch while the outcome is looked up. An undo needs no result.
    """
    spec = record.order.by_name.get(event.step)
    if spec is None:
        return Rejection.NOT_OPEN
    if event.direction is Direction.UNDO and event.kind is OutcomeKind.DONE_WITHOUT_RESULT:
        event = replace(event, kind=OutcomeKind.DONE)
    operation = record.step(event.step).operation(event.direction)
    if operation.start_id == event.start_id and operation.state is _FINAL.get(event.kind):
        return record  # a repeated event
    is_open = operation.finds_left > 0 and event.epoch == record.epoch
    is_once = spec.must_not_repeat(event.direction)
    if event.is_look_up and not is_open and not (is_once and event.kind in _DONE):
        return Rejection.NOT_OPEN
    if is_once:
        return _end_once(record, spec, event, now, settings)
    rejection = _check_start(record, event, operation, now)
    return _with_outcome(record, spec, event, now, settings) if rejection is None else rejection


def _check_start(
    record: TaskRecord, event: events.StepEnded, operation: Operation, now: datetime
) -> Rejection | None:
    if event.epoch != record.epoch or event.direction is not record.direction:
        return Rejection.STALE_EPOCH
    if operation.start_id != event.start_id:
        return Rejection.OTHER_START
    if operation.state is not OperationState.RUNNING:
        return Rejection.ENDED
    is_late = operation.complete_by is not None and now > operation.complete_by
    return Rejection.LATE if is_late and event.kind is not OutcomeKind.NOT_BEGUN else None


def _end_once(
    record: TaskRecord, spec: StepSpec, event: events.StepEnded, now: datetime, settings: RuleSettings
) -> TaskRecord | Rejection:
    """Record the outcome of a step that must not be repeated."""
    do = record.do(spec.name)
    is_done = event.kind in _DONE
    open_states = {OperationState.RUNNING, OperationState.UNKNOWN, OperationState.NOT_STARTED}
    open_states |= {OperationState.REFUSED} if is_done else set()
    if event.start_id in do.earlier_starts:
        if not is_done or event.is_look_up:
            return record
        if do.state not in {OperationState.NOT_STARTED, OperationState.REFUSED}:
            record = add_note(record, spec.name, _DONE_TWICE, now)
        event = replace(event, start_id=do.start_id or "")  # known as done: the step needs no other start
    if event.start_id != do.start_id:
        return Rejection.OTHER_START
    # After an unknown outcome, "done" may be an operator's verdict, which "not begun" contradicts.
    is_by_hand = bool(do.attempts) and do.attempts[-1].outcome == OutcomeKind.UNKNOWN
    contradicts = event.kind is OutcomeKind.REFUSED or (is_by_hand and event.kind is OutcomeKind.NOT_BEGUN)
    if do.state is OperationState.DONE and contradicts:
        return add_note(record, spec.name, _NOT_DONE_AFTER, now)
    if do.state not in open_states:
        return record
    if do.state is OperationState.NOT_STARTED and not is_done:
        return record  # the step may already start again
    if event.kind is not OutcomeKind.UNKNOWN:
        record = _with_outcome(record, spec, event, now, settings)
        is_passed = record.do(spec.name).state is OperationState.REFUSED  # the task continued without it
        remains = is_done and not spec.undo and (is_passed or record.direction is Direction.UNDO)
        record = add_note(record, spec.name, _EFFECT_REMAINS, now) if remains else record
    elif do.state is not OperationState.NOT_STARTED and (event.is_look_up or not do.finds_left):
        record = mark_unknown(record, spec, now, event.error)
    return record


def mark_unknown(record: TaskRecord, spec: StepSpec, now: datetime, error: str | None) -> TaskRecord:
    """Mark an outcome as unknown. An Agent that can looks it up once."""
    do = record.do(spec.name)
    is_first = do.state is OperationState.RUNNING and spec.can_find and record.direction is Direction.DO
    unknown = do.with_attempt(now, OutcomeKind.UNKNOWN).with_finds(_LOOK_UPS[spec.type] if is_first else 0)
    unknown = replace(unknown, state=OperationState.UNKNOWN, error=error or do.error)
    return record.with_operation(spec.name, unknown, Direction.DO)


def _with_outcome(
    record: TaskRecord, spec: StepSpec, event: events.StepEnded, now: datetime, settings: RuleSettings
) -> TaskRecord:
    operation = record.step(spec.name).operation(event.direction)
    is_open = operation.state in {OperationState.RUNNING, OperationState.UNKNOWN}
    if is_open and event.kind is not OutcomeKind.UNKNOWN and not event.has_unanswered:
        operation = replace(operation, unknown_starts=operation.unknown_starts - 1)
    over = {OperationState.UNKNOWN, OperationState.REFUSED}
    is_passed = spec.may_fail and operation.state in over and not operation.finds_left
    operation = operation.with_attempt(now, str(event.kind))
    match event.kind:
        case OutcomeKind.NOT_BEGUN | OutcomeKind.DONE_WITHOUT_RESULT if is_passed:  # the task continued
            after = operation.ended(OperationState.REFUSED, now, error=event.error)
            is_done = event.kind is OutcomeKind.DONE_WITHOUT_RESULT  # its effect exists: it is not rebuilt
            after = replace(after, unknown_starts=after.unknown_starts + 1) if is_done else after
        case OutcomeKind.DONE | OutcomeKind.DONE_WITHOUT_RESULT | OutcomeKind.REFUSED:
            error = None if event.kind is OutcomeKind.DONE else event.error
            after = operation.ended(_FINAL[event.kind], now, result=event.result, error=error)
        case OutcomeKind.NOT_BEGUN:
            is_unreached = operation.state is OperationState.UNKNOWN and operation.error == UNREACHED
            operation = operation if is_unreached else replace(operation, error=event.error)
            record = record.with_operation(spec.name, operation, event.direction)
            record = defer_not_begun(record, spec, event.direction, now, settings)
            if is_unreached or not event.is_look_up or record.finished_at is not None:
                return record
            return fail_or_recover(record, spec, event.error or "", now, settings, may_recover=True)
        case OutcomeKind.UNKNOWN if event.direction is Direction.DO and spec.may_fail:
            after = operation.ended(OperationState.REFUSED, now, error=f"{OUTCOME_UNKNOWN} ({event.error})")
        case OutcomeKind.UNKNOWN:
            after = replace(operation, complete_by=now, error=event.error)  # overdue from now on
        case _:
            assert_never(event.kind)
    if event.direction is Direction.UNDO and after.state is OperationState.DONE:
        return record.with_step(record.step(spec.name).with_undone(after))
    return record.with_operation(spec.name, after, event.direction)


def receive_event(record: TaskRecord, event: events.EventReceived, now: datetime) -> TaskRecord | Rejection:
    """Record the event of a step, also before the step starts. A repeated event changes nothing."""
    spec = record.order.by_name.get(event.step)
    if spec is None or spec.type is not StepType.EVENT:
        return Rejection.NOT_OPEN
    step = record.step(event.step)
    if step.event is not None:
        return record if step.event == event.body else Rejection.NOT_OPEN
    is_finished = record.finished_at is not None and record.error is None
    is_undone = record.decision is not None and record.decision.end in UNDOING_ENDS
    if record.direction is Direction.UNDO or is_finished or is_undone:
        return Rejection.FINISHED
    if step.do.state not in {OperationState.NOT_STARTED, OperationState.RUNNING}:
        return Rejection.NOT_OPEN
    if record.suspension is not None and not record.suspension.by_operator:
        return Rejection.NOT_DEPLOYED
    received = replace(step, event=event.body, event_by=event.who)
    if step.do.state is OperationState.RUNNING:
        received = replace(received, do=step.do.ended(OperationState.DONE, now, result=event.body))
    return record.with_step(received)


def end_child(record: TaskRecord, event: events.ChildEnded, now: datetime) -> TaskRecord | Rejection:
    """Record the end of the child task of a workflow step, or the end of its undo.

    A child that was undone has no effect left, and never has another one. An operator may undo it later.
    """
    spec = record.order.by_name.get(event.step)
    step = record.step(event.step)
    children = [record.order.child(event.step, number) for number in range(len(step.earlier_dos) + 1)]
    child = event.child or children[0]
    is_own = record.order.run_id == event.run_id and child in children
    if spec is None or spec.type is not StepType.WORKFLOW or not is_own:
        return Rejection.NOT_OPEN
    is_undo = step.undo.state is OperationState.RUNNING
    if is_undo and not event.is_done and child == children[step.generation(Direction.UNDO)]:
        return record.with_step(step.with_undone(step.undo.ended(OperationState.DONE, now)))
    if step.undone or step.undo.state in {OperationState.DONE, OperationState.SKIPPED}:
        return record
    late = {OperationState.REFUSED} if step.do.unknown_starts else set()
    is_gone = not event.is_done and step.do.state in {OperationState.DONE_WITHOUT_RESULT, *late}
    if (is_gone or step.do.state is OperationState.RUNNING) and child == children[-1]:
        state = OperationState.DONE if event.is_done else OperationState.REFUSED
        if event.is_done and event.result is None:
            state = OperationState.DONE_WITHOUT_RESULT
        ended = step.do.ended(state, now, result=event.result, error=event.error)
        return record.with_step(replace(step, do=replace(ended, unknown_starts=0)))
    is_newest = child == children[-1] and record.direction is Direction.DO
    is_repeated = event.is_done and step.do.state is OperationState.DONE and not step.do.unknown_starts
    note = _CHILD_NOTES.get((step.do.state, event.is_done)) if is_newest and not is_repeated else None
    return record if note is None else add_note(record, event.step, note, now)


def defer_not_begun(
    record: TaskRecord, spec: StepSpec, direction: Direction, now: datetime, settings: RuleSettings
) -> TaskRecord:
    """Defer a step whose service was not called. The deferral counts no failure within `defer_for`."""
    operation = record.step(spec.name).operation(direction)
    again = replace(operation.with_finds(0), state=OperationState.NOT_STARTED)
    record = record.with_operation(spec.name, again, direction)
    is_deferred = operation.state is OperationState.RUNNING or operation.error == UNREACHED
    if not is_deferred or record.finished_at is not None or direction is not record.direction:
        return record  # a late outcome, or one that was looked up
    return _defer(record, spec, operation.started_at or now, now, settings)


def _defer(
    record: TaskRecord, spec: StepSpec, since: datetime, now: datetime, settings: RuleSettings
) -> TaskRecord:
    """Defer a step behind its gate. A step that was deferred before keeps its place and its bound.

    `since` is the start of its wait. The place of a request to a queue is the time at which it was sent.
    """
    operation = record.current(spec.name)
    left = settings.defer_for if operation.defer_left is None else operation.defer_left
    place = operation.deferred_since or (since if spec.type is StepType.QUEUE else now)
    since = now if operation.defer_left is None else since  # the first wait in the queue is no deferral
    defer_by = operation.defer_by or since + left + sum_since(record.stops, since)
    deferred = replace(operation, gate=spec.gate, is_released=False, defer_left=None)
    deferred = replace(deferred, deferred_since=place, defer_by=defer_by)
    return replace(record, deferred_since=None).with_operation(spec.name, deferred)


def fail_or_recover(
    record: TaskRecord, spec: StepSpec, text: str, now: datetime, settings: RuleSettings, *, may_recover: bool
) -> TaskRecord:
    """End an optional step that has failed with the error `text`; decide on a recovery for another one.

    An exhausted undo counts as refused.
    """
    operation = record.current(spec.name)
    if record.direction is Direction.DO and spec.may_fail:
        failed = operation.with_attempt(now, OUTCOME_UNKNOWN).ended(OperationState.REFUSED, now, error=text)
        return record.with_operation(spec.name, failed)
    if record.decision is not None:
        ended = replace(operation.restartable(now, "no outcome"), gate=None, defer_by=None)
        ended = ended if operation.gate is None else replace(ended, defer_left=timedelta())
        return record.with_operation(spec.name, ended)
    if not may_recover:
        return record
    decision = recovery(record, settings, spec.name)
    if record.direction is Direction.DO or decision.end is EpochEnd.RECOVERED:
        return replace(record, decision=decision)
    refused = operation.ended(OperationState.REFUSED, now, error=_overdue_text(record))
    return replace(record.with_operation(spec.name, refused), failures=0)


def recovery(record: TaskRecord, settings: RuleSettings, name: str) -> Decision:
    """Decide on another recovery, or that recoveries are exhausted."""
    if record.failures < settings.threshold + len(settings.extended_waits):
        return Decision(end=EpochEnd.RECOVERED, reason="its deadline passed", who="supervisor")
    is_do = record.direction is Direction.DO
    is_undone = is_do and record.order.on_exhausted is FailurePolicy.COMPENSATE
    end = EpochEnd.EXHAUSTED if is_undone else EpochEnd.STOPPED
    place = name if is_do else f"undo of {name}"
    return Decision(end=end, reason=f"{place}: {_overdue_text(record)}", who="supervisor")


def _overdue_text(record: TaskRecord) -> str:
    return f"overdue after {record.failures} recover{'y' if record.failures == 1 else 'ies'}"
