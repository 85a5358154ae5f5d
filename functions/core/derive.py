"""The values derived from the facts of a task: due time, state, ready steps, order of undo, columns.

No value depends on the time at which it is computed, so a stored column never becomes outdated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from math import inf

from functions.core.record import (
    WAITING_TYPES,
    Direction,
    Operation,
    OperationState,
    StepRecord,
    StepSpec,
    StepType,
    TaskRecord,
    once,
    scheduler_id,
)


class ProcessState(StrEnum):
    """The states of a task, as the pattern names them."""

    PENDING = "Pending"
    PROCESSING = "Processing"
    PROCESSED = "Processed"
    ERROR = "Error"
    COMPENSATED = "Compensated"


class WaitingFor(StrEnum):
    """The event that a task waits for; `none` while a run has a call under way, and after its end."""

    NONE = "none"
    PICK_UP = "pick-up"
    REPLY = "reply"
    EVENT = "event"
    TIMER = "timer"
    CHILD = "child"
    DEFERRED = "deferred"
    SUSPENDED = "suspended"


class StepState(StrEnum):
    """The state of a step as operators see it."""

    NOT_STARTED = "Not started"
    RUNNING = "Running"
    WAITING = "Waiting"
    DEFERRED = "Deferred"
    #: It was dispatched, and waits for its next start.
    INTERRUPTED = "Interrupted"
    OUTCOME_UNKNOWN = "Outcome unknown"
    COMPLETED = "Completed"
    RESULT_MISSING = "Result missing"
    REFUSED = "Refused"
    SKIPPED = "Skipped"
    UNDOING = "Undoing"
    UNDONE = "Undone"
    UNDO_REFUSED = "Undo refused"
    LEFT = "Left as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The derived columns of a task; times are UTC.

    `complete_by` is None in a new task. `due_at` is the next time at which the task must be examined, and
    `wake_at` the next one that is no failure. `gates` holds, for each gate behind which steps wait, the
    earliest time and the number of steps since then. `calls_under_way` counts pending calls and requests.
    """

    state: ProcessState
    locked_by: str | None = None
    complete_by: datetime | None = None
    due_at: datetime | None = None
    wake_at: datetime | None = None
    waiting_for: WaitingFor = WaitingFor.NONE
    gates: Mapping[str, tuple[datetime, int]] = field(default_factory=dict)
    calls_under_way: int = 0


@once
def derive(record: TaskRecord) -> Columns:
    """Return all derived columns of a task."""
    running = [(spec, op) for spec, op in record.operations if op.state is OperationState.RUNNING]
    calls = [(spec, op) for spec, op in running if spec.type not in WAITING_TYPES]
    if record.finished_at is not None:
        return Columns(state=final_state(record), calls_under_way=len(calls))
    runs = [op.run for _, op in calls if op.run]
    pick_up = record.start_by if needs_run(record) else None
    calls_end = _earliest(op.complete_by for _, op in calls)
    waits_end = _earliest(op.complete_by for spec, op in running if spec.type in WAITING_TYPES)
    wake_at = _earliest((waits_end, record.resume_at))
    outcomes_end = _earliest(time for _, op in record.operations for time in (op.find_by, op.send_by))
    deferrals_end = _earliest(op.defer_by for _, op in record.operations if record.resume_at is None)
    expires_at = record.expires_at if may_expire(record) else None
    due_at = _earliest((calls_end, pick_up, outcomes_end, deferrals_end, expires_at, wake_at))
    is_suspended = record.suspension is not None
    waits = {spec.type for spec, _ in running}
    waits |= {spec.type for spec, op in record.operations if op.find_by}  # in its Agent's queue
    is_new = (record.epoch, record.run) == (1, 1) and not any(each.number for each in record.steps.values())
    return Columns(
        state=ProcessState.PROCESSING if calls else ProcessState.PENDING,
        locked_by=scheduler_id(record.order.task, record.epoch, max(runs)) if runs else None,
        complete_by=None if is_new else _earliest((calls_end, pick_up)),
        due_at=None if is_suspended else due_at,
        wake_at=None if is_suspended else wake_at,
        waiting_for=_waiting_for(record, waits, is_ready=pick_up is not None),
        gates={} if is_suspended else waiting_gates(record),
        calls_under_way=len(calls),
    )


def waiting_gates(record: TaskRecord) -> Mapping[str, tuple[datetime, int]]:
    """Return, for each gate behind which steps wait, the earliest time and the number of steps since then."""
    waiting: dict[str, list[datetime]] = {}
    for _, operation in record.operations:
        if operation.gate is not None and operation.deferred_since is not None:
            waiting.setdefault(operation.gate, []).append(operation.deferred_since)
    return {gate: (min(times), times.count(min(times))) for gate, times in waiting.items()}


def may_expire(record: TaskRecord) -> bool:
    """Return whether the task's own time limit applies."""
    return record.direction is Direction.DO and record.decision is None


def final_state(record: TaskRecord) -> ProcessState:
    """Return the state of a finished task."""
    if record.error is not None:
        return ProcessState.ERROR
    return ProcessState.PROCESSED if record.direction is Direction.DO else ProcessState.COMPENSATED


_WAITS = (
    (StepType.QUEUE, WaitingFor.REPLY),
    (StepType.EVENT, WaitingFor.EVENT),
    (StepType.WORKFLOW, WaitingFor.CHILD),
    (StepType.TIMER, WaitingFor.TIMER),
)


def _waiting_for(record: TaskRecord, running: set[StepType], *, is_ready: bool) -> WaitingFor:
    if record.suspension is not None:
        return WaitingFor.SUSPENDED
    if StepType.ACTIVITY in running:
        return WaitingFor.NONE
    if is_ready:
        return WaitingFor.PICK_UP
    waits = (waiting_for for step_type, waiting_for in _WAITS if step_type in running)
    return next(waits, WaitingFor.DEFERRED)


def _earliest(times: Iterable[datetime | None]) -> datetime | None:
    return min((time for time in times if time is not None), default=None)


_DO_STATES = {
    OperationState.NOT_STARTED: StepState.NOT_STARTED,
    OperationState.RUNNING: StepState.RUNNING,
    OperationState.DONE: StepState.COMPLETED,
    OperationState.DONE_WITHOUT_RESULT: StepState.RESULT_MISSING,
    OperationState.REFUSED: StepState.REFUSED,
    OperationState.UNKNOWN: StepState.OUTCOME_UNKNOWN,
    OperationState.SKIPPED: StepState.SKIPPED,
}
_UNDO_STATES = {
    OperationState.RUNNING: StepState.UNDOING,
    OperationState.DONE: StepState.UNDONE,
    OperationState.REFUSED: StepState.UNDO_REFUSED,
    OperationState.SKIPPED: StepState.LEFT,
}


def step_state(record: TaskRecord, spec: StepSpec) -> StepState:
    """Return the state of a step as operators see it."""
    step, operation = record.step(spec.name), record.current(spec.name)
    if operation.state is OperationState.NOT_STARTED and operation.gate is not None:
        return StepState.DEFERRED
    if operation.state is OperationState.NOT_STARTED and operation.number is not None:
        return StepState.INTERRUPTED
    if operation.state is OperationState.RUNNING and spec.type in WAITING_TYPES:
        return StepState.WAITING
    if record.direction is Direction.UNDO and step.undo.state in _UNDO_STATES:
        return _UNDO_STATES[step.undo.state]
    return _DO_STATES[step.do.state]


@once
def needs_run(record: TaskRecord) -> bool:
    """Return whether there is work that the newest run has not taken.

    A run with a call under way plans again at its end, so it starts all other ready steps as well.
    """
    is_taken = any(
        (op.state is OperationState.RUNNING or op.find_by) and spec.type is StepType.ACTIVITY
        for spec, op in record.operations
    )
    return not is_taken and bool(pending_work(record))


@once
def pending_work(record: TaskRecord) -> set[tuple[str, str]]:
    """Return the work of a run as pairs of step and kind: steps that can start, outcomes to look up."""
    starts = {(name, str(record.direction)) for name in ready_steps(record)}
    return starts | {(name, "find") for name in look_ups(record)}


def look_ups(record: TaskRecord) -> list[str]:
    """Return the names of the steps with an unknown outcome that a run can look up."""
    if record.finished_at is not None or record.suspension is not None or record.resume_at is not None:
        return []
    return [spec.name for spec, op in record.operations if op.finds_left and op.find_by is None]


def ready_steps(record: TaskRecord) -> list[str]:
    """Return the names of the steps whose operation in the task's direction can start."""
    is_paused = record.suspension is not None or record.decision is not None or record.resume_at is not None
    if is_paused or record.finished_at is not None:
        return []
    if record.direction is Direction.UNDO:
        first = next(iter(undo_order(record)), None)
        return [first] if first is not None and _can_start(record.step(first).undo) else []
    awaited = {spec.step for spec in record.order.specs if not is_settled(spec, record.do(spec.name))}
    return [
        spec.name
        for spec in _within_at_once(record)
        if spec.needs.isdisjoint(awaited) and _can_start(record.do(spec.name))
    ]


def _can_start(operation: Operation) -> bool:
    return operation.state is OperationState.NOT_STARTED and operation.gate is None


def _within_at_once(record: TaskRecord) -> Iterator[StepSpec]:
    """Yield the specs, without the items that exceed their step's `at_once`."""
    room: dict[str, int] = {}
    for spec in record.order.specs:
        if spec.at_once is not None:
            if spec.step not in room:
                items = (each for each in record.order.specs if each.step == spec.step)
                running = sum(record.do(each.name).state is OperationState.RUNNING for each in items)
                room[spec.step] = spec.at_once - running
            if record.do(spec.name).state is OperationState.NOT_STARTED:
                room[spec.step] -= 1
                if room[spec.step] < 0:
                    continue
        yield spec


def is_settled(spec: StepSpec, operation: Operation) -> bool:
    """Return whether the steps that need this one can start. A step without items is settled."""
    if operation.state in {OperationState.REFUSED, OperationState.UNKNOWN}:
        return spec.may_fail and not operation.finds_left
    return operation.state in {OperationState.DONE, OperationState.SKIPPED}


def questions(record: TaskRecord) -> list[str]:
    """Return the names of the steps on which an operator must decide before the task continues."""
    if record.direction is Direction.UNDO:
        return []
    return [
        spec.name
        for spec, do in record.operations
        if do.state is OperationState.DONE_WITHOUT_RESULT
        or (do.state is OperationState.UNKNOWN and not do.finds_left and not spec.may_fail)
    ]


@once
def undo_order(record: TaskRecord) -> list[str]:
    """Return the names of the steps to undo: a step before the steps that it needs, else the latest first.

    A refused undo blocks every step that its step needs, directly or not.
    """
    ordered: dict[str, StepSpec] = {}
    by_number = sorted(record.order.specs, key=lambda spec: record.step(spec.name).number or inf)

    def add(specs: Iterable[StepSpec]) -> None:
        for spec in specs:
            if spec.name not in ordered:
                add(each for each in by_number if each.step in spec.needs)
                ordered[spec.name] = spec

    add(by_number)
    undos = [(spec, record.step(spec.name)) for spec in reversed(ordered.values())]
    refused = (spec.needs for spec, step in undos if step.undo.state is OperationState.REFUSED)
    blocked = with_needs(record, frozenset[str]().union(*refused))
    ended = {OperationState.DONE, OperationState.REFUSED, OperationState.SKIPPED}
    return [
        spec.name
        for spec, step in undos
        if needs_undo(spec, step) and step.undo.state not in ended and spec.step not in blocked
    ]


def with_needs(record: TaskRecord, names: frozenset[str]) -> frozenset[str]:
    """Return defined steps together with all steps that they need, directly or not."""
    further = {name for spec in record.order.specs if spec.step in names for name in spec.needs} - names
    return with_needs(record, names | further) if further else names


def needs_undo(spec: StepSpec, step: StepRecord) -> bool:
    """Return whether a step was ever dispatched and has an undo. Unknown is not "not done"."""
    return step.number is not None and (spec.undo or spec.type is StepType.WORKFLOW)
