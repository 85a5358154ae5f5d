"""The rules of an epoch's end: recovery, undo, a refused undo, `Error`, the end of the task; messages.

Times are UTC.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from functions.core.derive import final_state, is_settled, questions, undo_order
from functions.core.json_values import UnfitValueError, bounded
from functions.core.record import (
    NOTICES,
    UNDOING_ENDS,
    WAITING_TYPES,
    ClosedEpoch,
    Decision,
    Direction,
    EpochEnd,
    FailurePolicy,
    Message,
    MessageKind,
    NotDeployedError,
    OperationState,
    RuleSettings,
    StepRecord,
    StepType,
    Suspension,
    TaskRecord,
    replace,
)

_WITHOUT_UNDO = "its outcome is unknown, and it has no undo: an effect would remain"


def conclude(record: TaskRecord, now: datetime, settings: RuleSettings) -> TaskRecord:
    """Return the record after every conclusion that its facts allow. A suspended task waits.

    The record keeps a decision while the outcome of a step that must not be repeated is pending.
    """
    while record.suspension is None:
        decision = record.decision
        is_derived = decision is None or decision.is_derived
        if is_derived and record.finished_at is None:
            record = record if decision is None else replace(record, decision=None)
            decision = _decision(record)
            is_do = record.direction is Direction.DO
            settled = (is_settled(spec, record.do(spec.name)) for spec in record.order.specs)
            if decision is None and (all(settled) if is_do else not undo_order(record)):
                return _complete(record, now, settings)
        if decision is None:
            return record
        is_timed_out = decision.end is EpochEnd.TIMED_OUT
        is_looked_up = any(op.finds_left for _, op in record.operations)
        if is_pending(record, decision.end) or (is_timed_out and is_looked_up):
            return replace(record, decision=replace(decision, is_derived=is_derived))
        if is_timed_out:
            decision = _question(record) or decision  # an unknown outcome is settled first
        if decision.end is EpochEnd.STOPPED:
            return _stop(record, now, decision.reason)
        record = next_epoch(record, decision, now, settings)
    return record


def is_pending(record: TaskRecord, end: EpochEnd) -> bool:
    """Return whether a step is under way that must not be repeated. A recovery keeps requests in queues."""
    return any(
        operation.state is OperationState.RUNNING and spec.must_not_repeat(record.direction)
        for spec, operation in record.operations
        if not (end is EpochEnd.RECOVERED and spec.type is StepType.QUEUE)
    )


def _decision(record: TaskRecord) -> Decision | None:
    """Return how the epoch must end: for a question, a refused step, or refused undos."""
    if record.direction is Direction.UNDO:
        refused = [step for step in record.steps.values() if step.undo.state is OperationState.REFUSED]
        if undo_order(record) or not refused:
            return None
        reasons = (f"undo of {step.name}: {step.undo.error}" for step in refused)
        return Decision(end=EpochEnd.STOPPED, reason=bounded("; ".join(reasons)))
    kept = None
    for spec, do in record.operations:
        if do.state is OperationState.REFUSED and not spec.may_fail:
            is_kept = (spec.on_failure or record.order.on_failure) is FailurePolicy.KEEP
            end = EpochEnd.STOPPED if is_kept else EpochEnd.REFUSED
            kept = Decision(end=end, reason=f"{spec.name}: {do.error}")
            if not is_kept:
                return kept  # an undo needs no answer
    return _question(record) or kept


def _question(record: TaskRecord) -> Decision | None:
    for name in questions(record):
        do = record.do(name)
        is_done = do.state is OperationState.DONE_WITHOUT_RESULT
        question = "done, but its result is missing" if is_done else "its outcome is unknown"
        return Decision(end=EpochEnd.STOPPED, reason=f"{name}: {question} ({do.error})")
    return None


def _stop(record: TaskRecord, now: datetime, reason: str) -> TaskRecord:
    record = replace(record, finished_at=now, error=reason, reason=reason, decision=None, resume_at=None)
    record = add_message(record, MessageKind.ALERT, now, body={"cause": "error", "reason": reason})
    return add_message(record, MessageKind.FAILED, now, body={"reason": reason})


def _complete(record: TaskRecord, now: datetime, settings: RuleSettings) -> TaskRecord:
    """Finish a task that was processed or compensated.

    The output is made in the same change. A task whose output cannot be made is processed without it.
    """
    ended = replace(record, finished_at=now, resume_at=None)
    if record.direction is Direction.UNDO:
        left = [step.name for step in record.steps.values() if step.undo.state is OperationState.SKIPPED]
        body = {"reason": record.reason, "left": left}
        return add_child_ended(add_message(ended, MessageKind.COMPENSATED, now, body=body), now)
    try:
        ended = replace(ended, output=settings.make_output(record), reason=None)
    except NotDeployedError as error:
        return suspend(record, str(error), now)
    except UnfitValueError as error:
        ended = replace(ended, reason=f"no output: {error}")
        ended = add_message(ended, MessageKind.ALERT, now, body={"cause": "no output", "reason": str(error)})
    ended = add_message(ended, MessageKind.COMPLETED, now, body={"output": ended.output})
    return add_child_ended(ended, now)


def suspend(record: TaskRecord, reason: str, now: datetime, *, by_operator: bool = False) -> TaskRecord:
    """Suspend a task. Calls under way end and count. An operator's suspension has priority."""
    current = record.suspension
    if current is not None and (current.by_operator or not by_operator):
        return record
    since = now if current is None else current.since
    suspended = replace(record, suspension=Suspension(reason=reason, by_operator=by_operator, since=since))
    body = {"cause": "suspended", "reason": reason}
    return suspended if by_operator else add_message(suspended, MessageKind.ALERT, now, body=body)


def next_epoch(record: TaskRecord, decision: Decision, now: datetime, settings: RuleSettings) -> TaskRecord:
    """Close the epoch and open the next one. Running operations that may be repeated can start again."""
    closed = ClosedEpoch(
        epoch=record.epoch,
        end=decision.end,
        who=decision.who,
        reason=decision.reason,
        ended_at=now,
        direction=record.direction,
        runs=record.run,
        steps={name: str(step.operation(record.direction).state) for name, step in record.steps.items()},
    )
    is_turned = decision.end in UNDOING_ENDS and record.direction is Direction.DO
    is_recovery = decision.end is EpochEnd.RECOVERED
    failures = record.failures + 1 if is_recovery else record.failures
    opened = replace(
        record,
        epoch=record.epoch + 1,
        run=1,
        start_by=now + settings.start_within,
        direction=Direction.UNDO if is_turned else record.direction,
        failures=0 if is_turned else failures,
        steps={name: _carry(record, step, now, is_turned=is_turned) for name, step in record.steps.items()},
        decision=None,
        error=None,
        finished_at=None,
        output=None,
        reason=decision.reason if is_turned or record.direction is Direction.DO else record.reason,
        resume_at=_extended_wait(record, now, settings) if is_recovery else None,
        deferred_since=record.deferred_since if is_recovery else None,
        closed=(*record.closed, closed),
    )
    if decision.end in {EpochEnd.EXHAUSTED, EpochEnd.TIMED_OUT}:
        body = {"cause": "exhausted", "reason": decision.reason}
        opened = add_message(opened, MessageKind.ALERT, now, body=body)
    unknown = [spec for spec, do in record.operations if do.state is OperationState.UNKNOWN]
    left = [spec.name for spec in unknown if is_turned and not spec.undo]
    for name in left:
        opened = opened.with_step(replace(opened.step(name), note=_WITHOUT_UNDO))
    if left:  # one alert, since a transaction does not hold one for each step
        body = {"cause": "noted", "reason": bounded(f"{', '.join(left)}: {_WITHOUT_UNDO}")}
        opened = add_message(opened, MessageKind.ALERT, now, body=body)
    return opened


def _extended_wait(record: TaskRecord, now: datetime, settings: RuleSettings) -> datetime | None:
    """Return the time of the next recovery, None for an immediate one. The settings may have changed."""
    number = min(record.failures - settings.threshold, len(settings.extended_waits) - 1)
    if number < 0:
        return None
    return now + settings.extended_waits[number] * (1 + jitter(f"{record.order.task}.{record.epoch}") / 4)


def _carry(record: TaskRecord, step: StepRecord, now: datetime, *, is_turned: bool) -> StepRecord:
    spec, do, undo = record.order.by_name[step.name], step.do, step.undo
    is_waiting = spec.type in WAITING_TYPES
    if do.state is OperationState.RUNNING and not is_waiting and not spec.must_not_repeat(Direction.DO):
        do = do.restartable(now, "no outcome")
    if undo.state is OperationState.RUNNING and not is_waiting:
        undo = undo.restartable(now, "no outcome")
    if do.finds_left:  # only a look-up of this epoch counts
        do = do.with_finds(0 if is_turned else do.finds_left)
    elif do.state is OperationState.RUNNING and spec.type is StepType.QUEUE:
        do = replace(do, run=0)  # it is of no run of this epoch
    if is_turned:
        is_skipped = do.state is OperationState.RUNNING and spec.type in {StepType.EVENT, StepType.TIMER}
        state = OperationState.SKIPPED if is_skipped else do.state
        do = replace(do, state=state, gate=None)
    return replace(step, do=do, undo=undo)


def add_child_ended(record: TaskRecord, now: datetime) -> TaskRecord:
    """Notify the parent of a child task of its end."""
    if record.order.parent is None:
        return record
    parent, step = record.order.parent, record.order.parent_step
    body = {"step": step, "child": record.order.task}
    return add_message(record, MessageKind.CHILD_ENDED, now, to=parent, step=step, body=body)


def add_note(record: TaskRecord, name: str, note: str, now: datetime) -> TaskRecord:
    """Record a note for operators on a step, with an alert."""
    step = record.step(name)
    if step.note == note:
        return record
    noted = record.with_step(replace(step, note=note))
    return add_message(noted, MessageKind.ALERT, now, step=name, body={"cause": "noted", "reason": note})


def add_message(
    record: TaskRecord,
    kind: MessageKind,
    now: datetime,
    *,
    to: str = "",
    step: str | None = None,
    body: Mapping[str, object] | None = None,
) -> TaskRecord:
    """Add a message to the outbox of this change. A notice is for the order's reply queue, if it has one.

    Its id differs by epoch, kind and cause. Alerts and messages of steps may be repeated in an epoch: their
    ids have the time.
    """
    is_notice = kind in NOTICES
    if is_notice and record.order.reply_to is None:
        return record
    parts = [record.order.task, record.order.run_id, str(record.epoch), str(kind), step]
    parts += [] if is_notice else [str(now.timestamp())]
    message = Message(
        kind=kind,
        id=".".join(part for part in (*parts, (body or {}).get("cause")) if isinstance(part, str)),
        task=record.order.task,
        at=now,
        to=(record.order.reply_to or "") if is_notice else to,
        body={
            "workflow": record.order.workflow,
            "epoch": record.epoch,
            "state": str(final_state(record)) if record.finished_at else None,
            "correlation_id": record.order.correlation_id,
            **(body or {}),
        },
    )
    return replace(record, outbox=(*record.outbox, message))


def sum_since(spans: Iterable[tuple[datetime, datetime]], since: datetime) -> timedelta:
    """Return the length of all spans of time after `since`. The spans do not overlap."""
    return sum((end - max(start, since) for start, end in spans if end > since), timedelta())


def jitter(seed: str) -> float:
    """Return a jitter in [0, 1) that depends on `seed` only."""
    return zlib.crc32(seed.encode()) / 2**32
