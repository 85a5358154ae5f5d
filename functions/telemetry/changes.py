"""Counts the outcomes of tasks and steps, where each change passes once: when it is recorded."""

from __future__ import annotations

from datetime import datetime, timedelta

from functions.pattern.records import StepRecord, TaskRecord
from functions.pattern.states import Direction, EpochEnd, Outcome, ProcessState, StepState
from functions.pattern.store_ports import ChangeAnnouncer
from functions.telemetry import instruments
from functions.telemetry.fields import Facts, Field, attributes

_ENDS = {
    ProcessState.PROCESSED: instruments.PROCESSED,
    ProcessState.COMPENSATED: instruments.COMPENSATED,
    ProcessState.ERROR: instruments.ERRORS,
}
_UNDER_WAY = {StepState.RUNNING: Direction.DO, StepState.UNDOING: Direction.UNDO}
_DONE = frozenset({StepState.COMPLETED, StepState.UNDONE})


class CountedChanges:
    """Counts each change, then has it announced. A crash between record and count loses the count."""

    def __init__(self, announcer: ChangeAnnouncer) -> None:
        self._announcer = announcer

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Count the change from `before` to `after`, and announce it."""
        if before is None:
            instruments.SUBMITTED.add(1, {Field.WORKFLOW: after.order.workflow})
        else:
            _count_task(before, after)
            _count_steps(before, after)
        await self._announcer.announce(before, after)


def _count_steps(before: TaskRecord, after: TaskRecord) -> None:
    for old, new in zip(before.steps, after.steps, strict=True):
        outcome = None if old.shape.via.waits else _outcome(old, new, before, after)
        if outcome is None or old.complete_by is None:
            continue
        begun_at = old.complete_by - timedelta(seconds=old.shape.complete_within)
        facts: Facts = {
            Field.AGENT: old.shape.agent,
            Field.OUTCOME: outcome.value,
            Field.DIRECTION: _UNDER_WAY[old.state].value,
        }
        instruments.STEP_DURATION.record(_seconds(begun_at, after.task.updated_at), attributes(facts))


def _count_task(before: TaskRecord, after: TaskRecord) -> None:
    workflow = {Field.WORKFLOW.value: after.order.workflow}
    closed = after.history[len(before.history) :]
    if any(epoch.ended_by is EpochEnd.RECOVERED for epoch in closed):
        instruments.RECOVERIES.add(1, workflow)
    state = after.task.process_state
    if state in _ENDS and state is not before.task.process_state:
        _ENDS[state].add(1, workflow)
        duration = _seconds(after.order.submitted_at, after.task.updated_at)
        instruments.TASK_DURATION.record(duration, {**workflow, Field.STATE.value: state.value})


def _outcome(old: StepRecord, new: StepRecord, before: TaskRecord, after: TaskRecord) -> Outcome | None:
    """Give the outcome of a step that was under way in this epoch, or None when it goes on.

    One whose undo is refused changes only its error.
    """
    held = (before.task.process_state, before.task.epoch)
    if old.state not in _UNDER_WAY or held != (ProcessState.PROCESSING, old.epoch):
        return None
    if new.state is not old.state or (new.error != old.error and after.task.locked_by is None):
        return Outcome.COMPLETED if new.state in _DONE else Outcome.FAILED
    if after.task.locked_by == before.task.locked_by:
        return None
    late = old.complete_by is not None and old.complete_by <= after.task.updated_at
    return Outcome.EXPIRED if late else Outcome.STALE


def _seconds(since: datetime, until: datetime) -> float:
    """Give the time between, at least 0: the clocks of two machines may differ."""
    return max(0.0, (until - since).total_seconds())
