"""The rules of a task: `fold` applies one event and the starts that follow from it to a record.

No function changes a record. `now` is the time of the instance that applies the event, in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from functions.core import deadline_rules, operator_rules, step_rules
from functions.core import task_events as events
from functions.core.derive import needs_run, pending_work
from functions.core.epoch_rules import add_message, conclude
from functions.core.record import MessageKind, OperationState, Order, RuleSettings, TaskRecord, replace
from functions.core.task_events import Event, Rejection

#: Returns the events that follow from a record, for the same transaction. It changes no record. It may be
#: called several times, and only the last call may be written.
type Plan = Callable[[TaskRecord, datetime], Sequence[Event]]
_ACTIONS = events.Cancelled | events.Resubmitted | events.UndoRequested | events.Answered


@dataclass(frozen=True, slots=True)
class Applied:
    """A record after one event and its consequences, or the unchanged record and the rejection."""

    record: TaskRecord
    rejection: Rejection | None = None


def admit(order: Order, now: datetime, settings: RuleSettings) -> TaskRecord:
    """Return the record of a new task, whose first run is requested."""
    limit = order.complete_within
    expires_at = None if limit is None else now + timedelta(seconds=limit)
    record = TaskRecord(order=order, start_by=now + settings.start_within, expires_at=expires_at)
    return conclude(add_message(record, MessageKind.RECEIVED, now), now, settings)


def fold(
    record: TaskRecord, event: Event | None, plan: Plan | None, now: datetime, settings: RuleSettings
) -> Applied:
    """Apply an event and the plan of a run. Without a plan, request a run for newly ready steps.

    The record is the same object if nothing changes.
    """
    after = record if event is None else apply(record, event, now, settings)
    if isinstance(after, Rejection):
        return Applied(record, after)
    if isinstance(event, events.StepEnded) and event.epoch != record.epoch:
        plan = None  # it belongs to a run of an earlier epoch
    if plan is not None:
        after = _apply_plan(after, plan, now, settings)
    if after.epoch != record.epoch:  # an epoch begins with its own run
        return Applied(after)
    is_left = needs_run(after) and not needs_run(record)
    if plan is None and after.run == record.run and (is_left or pending_work(after) - pending_work(record)):
        return Applied(replace(after, run=after.run + 1, start_by=now + settings.start_within))
    if plan is not None and after is not record and needs_run(after):
        return Applied(replace(after, start_by=now + settings.start_within))
    return Applied(after)


def _apply_plan(record: TaskRecord, plan: Plan, now: datetime, settings: RuleSettings) -> TaskRecord:
    """Apply the planned events, and plan again while other steps may have become ready."""
    is_complete = False
    while not is_complete:
        is_complete = True
        for event in plan(record, now):
            after = apply(record, event, now, settings)
            if not isinstance(after, Rejection) and after is not record:
                record = after
                begun = event.step if isinstance(event, events.StepStarted) else None
                is_complete &= begun is not None and record.current(begun).state is OperationState.RUNNING
    return record


def apply(record: TaskRecord, event: Event, now: datetime, settings: RuleSettings) -> TaskRecord | Rejection:
    """Return the record after an event and every conclusion; the same object if nothing changes."""
    after = _apply(record, event, now, settings)
    if isinstance(after, Rejection) or after is record:
        return after
    if isinstance(event, _ACTIONS) or getattr(event, "by_operator", False):
        after = replace(after, acted_at=now)
    return conclude(after, now, settings)


def _apply(  # noqa: C901, PLR0911, PLR0912 - one case for each event
    record: TaskRecord, event: Event, now: datetime, settings: RuleSettings
) -> TaskRecord | Rejection:
    match event:
        case events.RunStarted():
            return step_rules.begin_run(record, event, now)
        case events.StepStarted():
            return step_rules.start_step(record, event, now)
        case events.RequestsSent():
            return step_rules.record_sent(record, event, now)
        case events.StepSkipped() | events.StepDeferred() | events.StepBroken():
            return step_rules.pass_over_step(record, event, now, settings)
        case events.ResultRejected():
            return step_rules.reject_result(record, event)
        case events.StepEnded():
            return step_rules.end_step(record, event, now, settings)
        case events.EventReceived():
            return step_rules.receive_event(record, event, now)
        case events.ChildEnded():
            return step_rules.end_child(record, event, now)
        case events.Due():
            return deadline_rules.act_on_deadlines(record, event, now, settings)
        case events.GateReleased():
            return deadline_rules.release_steps(record, event, now)
        case events.Suspended():
            return operator_rules.suspend_task(record, event, now)
        case events.Resumed():
            return operator_rules.resume(record, event, now)
        case events.Cancelled():
            return operator_rules.cancel(record, event, now)
        case events.Resubmitted() | events.UndoRequested() | events.Answered():
            return operator_rules.act_in_error(record, event, now, settings)
        case _:
            assert_never(event)
