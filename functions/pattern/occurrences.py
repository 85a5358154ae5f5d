"""What a recorded change comes to, for those who count: tasks accepted, ended or recovered, steps ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from functions.pattern.records import TaskRecord
from functions.pattern.shape import StepShape
from functions.pattern.states import Direction, EpochEnd, Outcome, ProcessState, StepState
from functions.pattern.step_records import StepRecord

_UNDER_WAY = {StepState.RUNNING: Direction.DO, StepState.UNDOING: Direction.UNDO}
_DONE = frozenset({StepState.COMPLETED, StepState.UNDONE})


class TaskCounter(StrEnum):
    """A counter of tasks: the console shows it by the minute, and OpenTelemetry exports it."""

    #: Orders recorded as tasks.
    ACCEPTED = "accepted"
    #: Tasks that reached `Processed`.
    PROCESSED = "processed"
    #: Tasks that reached `Compensated`.
    COMPENSATED = "compensated"
    #: Entries of tasks into `Error`.
    ERROR = "error"
    #: Recoveries of overdue tasks by the Supervisor.
    RECOVERED = "recovered"


_COUNTED_ENDS = {
    ProcessState.PROCESSED: TaskCounter.PROCESSED,
    ProcessState.COMPENSATED: TaskCounter.COMPENSATED,
    ProcessState.ERROR: TaskCounter.ERROR,
}


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """A task came to `state`, `seconds` after its submission."""

    state: ProcessState
    seconds: float


@dataclass(frozen=True, slots=True)
class StepEnd:
    """An attempt at a step came to its outcome, `seconds` after its dispatch."""

    shape: StepShape
    direction: Direction
    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True)
class Occurrences:
    """What one change of a task of `workflow` comes to: often nothing."""

    workflow: str
    accepted: bool = False
    recovered: bool = False
    end: TaskEnd | None = None
    steps: tuple[StepEnd, ...] = ()

    @property
    def counters(self) -> Iterator[TaskCounter]:
        """Return the counters that the change increments."""
        if self.accepted:
            yield TaskCounter.ACCEPTED
        if self.recovered:
            yield TaskCounter.RECOVERED
        if self.end is not None:
            yield _COUNTED_ENDS[self.end.state]


def occurrences(before: TaskRecord | None, after: TaskRecord) -> Occurrences:
    """Compare the record before a change (None: a new task) with the one after it."""
    workflow = after.order.workflow
    if before is None:
        return Occurrences(workflow, accepted=after.task.process_state is ProcessState.PENDING)
    closed = after.history[len(before.history) :]
    return Occurrences(
        workflow,
        recovered=any(epoch.ended_by is EpochEnd.RECOVERED for epoch in closed),
        end=_task_end(before, after),
        steps=tuple(_step_ends(before, after)),
    )


def _task_end(before: TaskRecord, after: TaskRecord) -> TaskEnd | None:
    state = after.task.process_state
    if state not in _COUNTED_ENDS or state is before.task.process_state:
        return None
    return TaskEnd(state, _seconds(after.order.submitted_at, after.task.updated_at))


def _step_ends(before: TaskRecord, after: TaskRecord) -> Iterator[StepEnd]:
    """Give the attempts that came to an end; a step that only waits is none of an Agent's work."""
    for old, new in zip(before.steps, after.steps, strict=True):
        outcome = None if old.shape.via.waits else _outcome(old, new, before, after)
        if outcome is not None and old.began_at is not None:
            seconds = _seconds(old.began_at, after.task.updated_at)
            yield StepEnd(old.shape, _UNDER_WAY[old.state], outcome, seconds)


def _outcome(old: StepRecord, new: StepRecord, before: TaskRecord, after: TaskRecord) -> Outcome | None:
    """Give the outcome of a step that was under way in this epoch, or None when it goes on.

    One whose undo is refused changes only its error.
    """
    held = (before.task.process_state, before.task.epoch)
    if old.state not in _UNDER_WAY or old.was_not_taken or held != (ProcessState.PROCESSING, old.epoch):
        return None
    if new.was_not_taken:
        return Outcome.NOT_TAKEN
    if new.given_up:
        return Outcome.EXPIRED
    if new.state is not old.state or (new.error != old.error and after.task.locked_by is None):
        return Outcome.COMPLETED if new.state in _DONE else Outcome.FAILED
    if after.task.locked_by == before.task.locked_by:
        return None
    late = old.complete_by is not None and old.complete_by <= after.task.updated_at
    return Outcome.EXPIRED if late else Outcome.STALE


def _seconds(since: datetime, until: datetime) -> float:
    """Give the time between, at least 0: the clocks of two machines may differ."""
    return max(0.0, (until - since).total_seconds())
