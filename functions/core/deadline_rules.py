"""The rules of time: the end of waits, overdue steps, the time limit of a task, and releases from a gate.

Times are UTC. A wait ends by the local clock, an overdue step by the local clock less the allowed skew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from functions.core.derive import may_expire, needs_run, waiting_gates
from functions.core.epoch_rules import jitter, sum_since, suspend
from functions.core.gate_rules import UNREACHED, Hold, current_hold, is_unreached
from functions.core.record import (
    WAITING_TYPES,
    Decision,
    Direction,
    EpochEnd,
    FailurePolicy,
    NotDeployedError,
    Operation,
    OperationState,
    RuleSettings,
    StepSpec,
    StepType,
    TaskRecord,
    replace,
)
from functions.core.step_rules import (
    OUTCOME_UNKNOWN,
    defer_not_begun,
    fail_or_recover,
    mark_unknown,
    recovery,
)
from functions.core.task_events import Due, GateReleased, Rejection

#: Spans by which deadlines were extended that the record keeps.
_MOST_STOPS = 150


def act_on_deadlines(
    record: TaskRecord, event: Due, now: datetime, settings: RuleSettings
) -> TaskRecord | Rejection:
    """End waits and deferrals that are due. If there are none, act on overdue steps."""
    if record.finished_at is not None or record.suspension is not None:
        return Rejection.NOT_DUE
    decided = None if record.decision is None else record.decision.end  # an end and an undo need no version
    if record.direction is Direction.DO and decided in {None, EpochEnd.RECOVERED}:
        try:
            settings.check_deployed(record)
        except NotDeployedError as error:
            return suspend(record, str(error), now)
    after = _end_waits(record, now)
    if after is record:
        after = _act_on_overdue(record, event, now, settings)
    return Rejection.NOT_DUE if after is record else after


def _end_waits(record: TaskRecord, now: datetime) -> TaskRecord:
    if record.resume_at is not None and record.resume_at <= now:
        record = replace(record, resume_at=None)
    for spec, operation in record.operations:
        if spec.type in WAITING_TYPES and operation.is_overdue(now):
            record = record.with_operation(spec.name, _end_wait(spec, operation, now))
    return record


def _end_wait(spec: StepSpec, operation: Operation, now: datetime) -> Operation:
    result = "{}" if spec.type is StepType.TIMER else spec.default
    if result is not None:
        return operation.ended(OperationState.DONE, now, result=result)
    event = "no event arrived" if spec.type is StepType.EVENT else "its task did not end"
    error = f"{event} by {operation.complete_by:%Y-%m-%d %H:%M:%S} UTC"
    return operation.ended(OperationState.REFUSED, now, error=error)


def _act_on_overdue(record: TaskRecord, event: Due, now: datetime, settings: RuleSettings) -> TaskRecord:
    late = now - settings.skew
    next_run = record.run + 1
    was_not_picked_up = needs_run(record) and record.start_by <= late  # before other steps become ready
    credited = _credit_holds(record, event.holds, now)
    is_credited = credited is not record
    record = credited
    for spec, operation in record.operations:
        if operation.gate is not None:  # a transaction does not hold the rows of all gates beside a credit
            record = record if is_credited else _act_on_deferral(record, event, spec, now, settings)
        elif operation.find_by is not None and operation.find_by <= late:
            record = record.with_operation(spec.name, operation.with_finds(operation.finds_left - 1))
        elif operation.is_overdue(late):
            record = _act_on_overdue_step(record, event, spec, now, settings)
        elif operation.send_by is not None and operation.send_by <= late:
            start_by = now + settings.start_within
            record = record.with_operation(spec.name, replace(operation, run=None, send_by=start_by))
            record = replace(record, run=next_run, start_by=start_by)
    if may_expire(record) and record.expires_at is not None and record.expires_at <= late:
        record = _expire(record, event, now, settings)
    is_missed = was_not_picked_up and needs_run(record)
    return _act_on_missed_pick_up(record, event, now, settings) if is_missed else record


def counts_as_failure(record: TaskRecord, spec: StepSpec, *, may_recover: bool) -> bool:
    """Return whether an overdue request counts as failed. A required step beside a decision only ends."""
    is_optional = spec.may_fail and record.direction is Direction.DO
    return is_optional or spec.must_not_repeat(record.direction) or (may_recover and record.decision is None)


def _act_on_overdue_step(
    record: TaskRecord, event: Due, spec: StepSpec, now: datetime, settings: RuleSettings
) -> TaskRecord:
    operation = record.current(spec.name)
    is_once = spec.must_not_repeat(record.direction)
    sent_at = operation.started_at or now
    ends_at = operation.complete_by or now
    if is_once and spec.type is StepType.QUEUE:
        complete_by = _held_deadline(spec, sent_at, event.holds.get(spec.gate, ()), now, settings)
        if complete_by > now:
            return record.with_operation(spec.name, replace(operation, complete_by=complete_by))
    gate = event.queues.get(spec.gate)
    was_unreached = gate is not None and is_unreached(gate, sent_at, ends_at, settings)
    may_fail = counts_as_failure(record, spec, may_recover=True) and spec.type is StepType.QUEUE
    if may_fail and not was_unreached and operation.start_id not in event.counted:
        return record
    if is_once:
        return mark_unknown(record, spec, now, UNREACHED if was_unreached else None)
    if was_unreached:
        operation = replace(operation.with_attempt(now, UNREACHED), error=UNREACHED)
        record = record.with_operation(spec.name, operation)
        return defer_not_begun(record, spec, record.direction, now, settings)
    error = OUTCOME_UNKNOWN if operation.error is None else f"{OUTCOME_UNKNOWN} ({operation.error})"
    return fail_or_recover(record, spec, error, now, settings, may_recover=event.may_recover)


def _held_deadline(
    spec: StepSpec, sent_at: datetime, holds: Sequence[Hold], now: datetime, settings: RuleSettings
) -> datetime:
    """Return the deadline of a request, which holds of its queue move. A current hold moves it beyond now."""
    complete_by = sent_at + timedelta(seconds=spec.complete_within)
    for hold in holds:
        if hold.start < complete_by:
            end = hold.end or now + settings.longest_deferral
            complete_by += max(timedelta(), end - max(hold.start, sent_at))
    return complete_by


def _act_on_deferral(
    record: TaskRecord, event: Due, spec: StepSpec, now: datetime, settings: RuleSettings
) -> TaskRecord:
    """Count a step as overdue that was deferred for `defer_for`. A held gate extends the deferral."""
    operation = record.current(spec.name)
    is_due = operation.defer_by is not None and operation.defer_by <= now - settings.skew
    if not is_due or record.resume_at is not None:
        return record
    if current_hold(event.holds.get(spec.gate, ())) is not None:
        return record.with_operation(spec.name, replace(operation, defer_by=now + settings.longest_deferral))
    error = "deferred for too long"
    return fail_or_recover(record, spec, error, now, settings, may_recover=event.may_recover)


def _act_on_missed_pick_up(
    record: TaskRecord, event: Due, now: datetime, settings: RuleSettings
) -> TaskRecord:
    """Recover a task that no run has picked up. During an overload or after a release, defer it uncounted."""
    since = record.deferred_since or now
    is_late = event.is_overloaded or any(op.is_released for _, op in record.operations)
    if is_late and now - since < settings.defer_for and record.decision is None:
        wait = settings.longest_deferral * (1 + jitter(f"{record.order.task}.{record.run}")) / 2
        return replace(record, resume_at=now + wait, deferred_since=since)
    if record.decision is not None:  # only look-ups are left
        return replace(record, run=record.run + 1, start_by=now + settings.start_within)
    if not event.may_recover:
        return record
    return replace(record, decision=recovery(record, settings, "the task"))  # no name of a step


def _expire(record: TaskRecord, event: Due, now: datetime, settings: RuleSettings) -> TaskRecord:
    """Apply `on_exhausted` to a task whose own time limit has passed. A held gate extends the limit."""
    if any(end is None and current_hold(event.holds.get(gate, ())) for gate, _, end in _waits(record)):
        return replace(record, expires_at=now + settings.longest_deferral)
    if not event.may_recover:
        return record
    is_undone = record.order.on_exhausted is FailurePolicy.COMPENSATE
    end = EpochEnd.TIMED_OUT if is_undone else EpochEnd.STOPPED
    reason = f"not finished within {record.order.complete_within:g} s"
    return replace(record, decision=Decision(end=end, reason=reason, who="supervisor"))


def release_steps(record: TaskRecord, event: GateReleased, now: datetime) -> TaskRecord | Rejection:
    """Release the steps that have waited longest behind a gate."""
    waiting = [
        (op.deferred_since, spec.name)
        for spec, op in record.operations
        if op.gate == event.gate and (event.since is None or (op.deferred_since or now) <= event.since)
    ]
    if record.finished_at is not None or not waiting:
        return Rejection.NOT_OPEN
    record = _credit_holds(record, {event.gate: event.holds}, now)
    if record.suspension is not None:
        record = extend_deadlines(record, [(record.suspension.since, now)])
    for _, name in sorted(waiting)[: event.most]:
        operation = record.current(name)
        left = None if operation.defer_by is None else max(timedelta(), operation.defer_by - now)
        released = replace(operation, gate=None, is_released=True, defer_by=None, defer_left=left)
        record = record.with_operation(name, released)
    return record


def _credit_holds(record: TaskRecord, holds: Mapping[str, Sequence[Hold]], now: datetime) -> TaskRecord:
    """Extend the deadlines by the time for which an operator held the gates behind which steps wait."""
    spans: list[tuple[datetime, datetime]] = []
    for gate, start, end in _waits(record):
        for hold in holds.get(gate, ()):
            # A current hold counts in whole five minutes: in between, other deadlines are examined.
            until = hold.end or end or now - (now - hold.start) % timedelta(minutes=5)
            spans.append((max(hold.start, start), min(until, end or until)))
    return extend_deadlines(record, spans)


def _waits(record: TaskRecord) -> list[tuple[str, datetime, datetime | None]]:
    """Return the gate, start and end of each wait: of a step behind a gate, of a request in its queue."""
    requests = [(spec.gate, each) for spec, each in record.operations if spec.type is StepType.QUEUE]
    sent = ((gate, each.started_at) for gate, each in requests if each.state is OperationState.RUNNING)
    ended = ((gate, attempt) for gate, each in requests for attempt in each.attempts)
    return [
        *((gate, since, None) for gate, (since, _) in waiting_gates(record).items()),
        *((gate, since, None) for gate, since in sent if since is not None),
        *((gate, each.started_at, each.started_at + timedelta(seconds=each.seconds)) for gate, each in ended),
    ]


def extend_deadlines(record: TaskRecord, spans: Iterable[tuple[datetime, datetime]]) -> TaskRecord:
    """Extend the deadlines of deferred steps and of the task by spans of time; each time counts once."""
    stops: list[tuple[datetime, datetime]] = []
    first = record.stops[0][0] if len(record.stops) == _MOST_STOPS else datetime.min.replace(tzinfo=UTC)
    for start, end in sorted((*record.stops, *((start, end) for start, end in spans if end > first))):
        if stops and start <= stops[-1][1]:
            stops[-1] = (stops[-1][0], max(end, stops[-1][1]))
        elif start < end:
            stops.append((start, end))
    after = replace(record, stops=tuple(stops[-_MOST_STOPS:]))
    if after.stops == record.stops:
        return record

    def moved(time: datetime | None, since: datetime) -> datetime | None:
        return postpone(time, sum_since(stops, since) - sum_since(record.stops, since))

    for spec, operation in record.operations:
        defer_by = moved(operation.defer_by, operation.deferred_since or record.order.submitted_at)
        after = after.with_operation(spec.name, replace(operation, defer_by=defer_by))
    return replace(after, expires_at=moved(record.expires_at, record.order.submitted_at))


def postpone(time: datetime | None, length: timedelta) -> datetime | None:
    """Return a deadline that is later by `length`, None without a deadline."""
    return None if time is None else time + length
