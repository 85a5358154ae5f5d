"""The checks of records: of one version of a task, of two versions, of one transition, and of the end.

The simulation, the model and the chaos runs use the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from functions.core.derive import ProcessState, derive, is_settled, needs_undo, step_state
from functions.core.record import (
    WAITING_TYPES,
    Direction,
    EpochEnd,
    MessageKind,
    Operation,
    OperationState,
    StepRecord,
    StepSpec,
    StepType,
    TaskRecord,
)

if TYPE_CHECKING:
    from tests.simulation.services import Effect

#: The error of an optional step whose deferral was too long.
DEFERRED_TOO_LONG = "deferred for too long"
_ENDED = {OperationState.DONE, OperationState.REFUSED}


class ViolationError(Exception):
    """An invariant does not hold. `story` is the course of its seed, `faults` are those that took place."""

    story: Sequence[str] = ()
    faults: frozenset[str] = frozenset()


class RecordChecks:
    """The invariants of records.

    `effects` are those of the remote services by effect key. `posted` are tasks with the kinds of their
    messages. `require` records a violation unless its first argument is true. `most_recoveries` is the limit
    of recoveries in one direction. `by_operator` are steps of tasks whose outcome an operator decided.
    """

    def __init__(
        self,
        *,
        records: Mapping[str, TaskRecord],
        effects: Mapping[str, Effect],
        posted: Collection[tuple[str, str | None]],
        require: Callable[[object, str], None],
        most_recoveries: int,
    ) -> None:
        self.records, self.effects, self.posted = records, effects, posted
        self.require = require
        self.by_operator = set[tuple[str, str]]()
        self._most_recoveries = most_recoveries

    # Versions

    def check_version(self, record: TaskRecord) -> None:
        """Check one version of a task."""
        task, columns = record.order.task, derive(record)
        is_open = record.finished_at is None
        is_active = is_open and record.suspension is None
        self.require(not is_open or record.suspension or columns.due_at, f"{task}: open, and never due")
        waits = {op.gate for _, op in record.operations if op.gate is not None and is_active}
        self.require(set(columns.gates) == waits, f"{task}: gates {columns.gates}")
        self.require(len({m.id for m in record.outbox}) == len(record.outbox), f"{task}: a message twice")
        self.require(record.failures <= self._most_recoveries, f"{task}: {record.failures} recoveries")
        finds = {do.state for _, do in record.operations if do.finds_left or do.find_by is not None}
        self.require(finds <= {OperationState.UNKNOWN}, f"{task}: looks up a step that is {finds}")
        for spec in record.order.specs:
            step_state(record, spec)
        for spec in {each.step: each for each in record.order.specs if each.at_once is not None}.values():
            items = (each.name for each in record.order.specs if each.step == spec.step)
            running = sum(record.current(name).state is OperationState.RUNNING for name in items)
            self.require(running <= (spec.at_once or 0), f"{task} {spec.step}: {running} items at once")
        is_stopped_undo = record.error is not None and record.direction is Direction.UNDO
        if is_stopped_undo and any(
            step.undo.state is OperationState.REFUSED for step in record.steps.values()
        ):
            self._check_stopped_undo(record)

    def check_order(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check two versions of a task, between which there may be others."""
        task = after.order.task
        is_later = (after.epoch, after.run) >= (before.epoch, before.run)
        self.require(is_later, f"{task}: epoch or run went back")
        is_back = before.direction is Direction.UNDO and after.direction is Direction.DO
        self.require(not is_back, f"{task}: from undo to do")
        for name, old in before.steps.items():
            step = after.step(name)
            self.require(not (old.number and not step.number), f"{task} {name}: dispatch lost")
            self.require(len(step.earlier_dos) >= len(old.earlier_dos), f"{task} {name}: generation lost")
            for direction in Direction if is_same_generation(old, step) else ():
                request = old.operation(direction).request
                is_kept = request in {None, step.operation(direction).request}
                self.require(is_kept, f"{task} {name} {direction}: request changed")

    # Transitions

    def check_starts_and_ends(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check the starts and the outcomes of one change, and the end of an epoch."""
        self._check_epoch(before, after)
        for name, step in after.steps.items():
            spec, old = after.order.by_name[name], before.step(name)
            if spec.type in WAITING_TYPES or not is_same_generation(old, step):
                continue
            for direction in Direction:
                was, now = old.operation(direction), step.operation(direction)
                if now.start_id != was.start_id:
                    self._check_start(before, after, spec, direction)
                if now.state in _ENDED and was.state not in _ENDED:
                    self._check_end(after, spec, direction, was, now)

    def check_child_undone(self, record: TaskRecord, name: str, generation: int) -> None:
        """Check that the child of a generation was undone, if it was admitted."""
        child = self.records.get(record.order.child(name, generation))
        state = ProcessState.COMPENSATED if child is None else derive(child).state
        place = f"{record.order.task} {name}"
        self.require(state is ProcessState.COMPENSATED, f"{place}: its child {generation} is {state}")

    def _check_epoch(self, before: TaskRecord, after: TaskRecord) -> None:
        """Check the end of an epoch or of a task."""
        task = after.order.task
        if after.closed and after.closed[-1].end is EpochEnd.TIMED_OUT:
            unknown = [
                name
                for name, state in after.closed[-1].steps.items()
                if state == "unknown" and not after.order.by_name[name].may_fail
            ]
            self.require(not unknown, f"{task}: timed out before the question on {unknown}")
        if after.error is not None and before.error is None and after.direction is Direction.DO:
            name = after.error.partition(":")[0]
            do = after.do(name)
            is_broken = do.state is OperationState.NOT_STARTED and after.error == f"{name}: {do.error}"
            self.require(not is_broken, f"{task}: stopped at {after.error}, though no function raises")
        is_recovery = all(each.end is EpochEnd.RECOVERED for each in after.closed)
        for name, step in after.steps.items() if after.epoch > before.epoch else ():
            spec, start_id = after.order.by_name[name], before.step(name).do.start_id
            is_pending = step.do.state is OperationState.RUNNING and step.do.start_id == start_id
            is_kept = is_recovery and spec.type is StepType.QUEUE
            is_lost = spec.must_not_repeat(Direction.DO) and is_pending and not is_kept
            self.require(not is_lost, f"{task} {name}: its epoch ended while it was pending")

    def _check_start(
        self, before: TaskRecord, after: TaskRecord, spec: StepSpec, direction: Direction
    ) -> None:
        """Check that a start was allowed: its order, the gate, the suspension, the previous start."""
        place = f"{after.order.task} {spec.name}"
        was, now = before.step(spec.name).operation(direction), after.step(spec.name).operation(direction)
        self.require(before.suspension is None, f"{place}: started while suspended")
        # A step that must not be repeated may be certain not to have been done.
        is_over = was.state in {OperationState.NOT_STARTED, OperationState.UNKNOWN}
        is_own = was.run == now.run and spec.type is StepType.ACTIVITY and not spec.must_not_repeat(direction)
        is_own &= now.started_at is None or not was.is_overdue(now.started_at)  # the Supervisor counts it
        self.require(is_over or before.epoch != after.epoch or is_own, f"{place}: started over {was.state}")
        if direction is Direction.DO:
            awaited = {each.step for each in after.order.specs if not is_settled(each, after.do(each.name))}
            is_ordered = spec.needs.isdisjoint(awaited) or after.direction is Direction.UNDO
            self.require(is_ordered, f"{place}: started before its needs")
        else:
            self._check_undo_order(after, spec.name)

    def _check_end(
        self, after: TaskRecord, spec: StepSpec, direction: Direction, was: Operation, now: Operation
    ) -> None:
        """Check that an outcome is that of the start on record, in time, or an operator's verdict."""
        place = f"{after.order.task} {spec.name} {direction}"
        is_current = was.start_id == now.start_id and was.state is OperationState.RUNNING
        is_once = spec.must_not_repeat(direction)
        is_new = was.start_id != now.start_id and now.start_id is not None
        is_answer = (after.order.task, spec.name) in self.by_operator
        is_exhausted = (now.error or "").endswith((DEFERRED_TOO_LONG, "recoveries"))
        is_allowed = is_current or is_once or is_new or is_answer or is_exhausted
        self.require(is_allowed, f"{place}: outcome of a start that was over ({was.state})")
        has_reply = spec.type not in {StepType.EVENT, StepType.TIMER}
        if is_current and not (is_once or is_answer or is_exhausted) and has_reply:
            is_derived = (now.error or "").startswith("outcome unknown")
            is_late = now.finished_at and was.complete_by and now.finished_at > was.complete_by
            self.require(is_derived or not is_late, f"{place}: a late reply counted")

    # Undo

    def _check_undo_order(self, record: TaskRecord, name: str) -> None:
        """Check that the steps that need a step are undone, and those that were dispatched after it."""
        number, task = record.step(name).number or 0, record.order.task
        for other in record.steps.values():
            numbers = [record.step(each).number or number + 1 for each in _users(record, other.name)]
            is_later = min([other.number or 0, *numbers]) > number or other.name in _users(record, name)
            if is_later and needs_undo(record.order.by_name[other.name], other):
                is_over = other.undo.state in {*_ENDED, OperationState.SKIPPED}
                is_blocked = _blocking(record, other.name)
                self.require(is_over or is_blocked, f"{task} {name}: undone before {other.name}")
        blocking = _blocking(record, name)
        self.require(not blocking, f"{task} {name}: undone, though {blocking} needs it")

    def _check_stopped_undo(self, record: TaskRecord) -> None:
        """Check that an undo that an operator must resume has left only blocked steps."""
        for step in record.steps.values():
            is_open = step.undo.state in {OperationState.NOT_STARTED, OperationState.RUNNING}
            if is_open and needs_undo(record.order.by_name[step.name], step) and record.failures == 0:
                self.require(_blocking(record, step.name), f"{record.order.task} {step.name}: not undone")

    # The end

    def check_end(self, tasks: Iterable[str]) -> None:
        """Check that every task has ended, and that the services agree with the records."""
        notices = {
            ProcessState.PROCESSED: MessageKind.COMPLETED,
            ProcessState.COMPENSATED: MessageKind.COMPENSATED,
            ProcessState.ERROR: MessageKind.ALERT,
        }
        for task in tasks:
            self.require(task in self.records, f"{task}: lost")
            state = derive(self.records[task]).state
            self.require(
                (task, notices.get(state)) in self.posted, f"{task}: no message of its end ({state})"
            )
        for task, record in self.records.items():
            columns = derive(record)
            has_output = record.output is not None or (record.reason or "").startswith("no output")
            self.require(columns.state is not ProcessState.PROCESSED or has_output, f"{task}: no output")
            ended = f"{task}: never ended ({columns.waiting_for}, {record.decision})"
            self.require(record.finished_at, ended)
            for name in record.steps:
                if (task, name) not in self.by_operator:
                    self._check_effects(record, columns.state, name)
            if columns.state is ProcessState.COMPENSATED:
                self._check_all_undone(record)

    def _check_effects(self, record: TaskRecord, state: ProcessState, name: str) -> None:
        spec, step, place = record.order.by_name[name], record.steps[name], f"{record.order.task} {name}"
        is_done = step.do.state is OperationState.DONE and state is ProcessState.PROCESSED
        is_undone = state is ProcessState.COMPENSATED and step.undo.state is OperationState.DONE
        if spec.type is StepType.WORKFLOW and (is_done or is_undone):
            for generation in range(len(step.earlier_dos) + is_undone):
                self.check_child_undone(record, name, generation)
        if spec.type in WAITING_TYPES:
            return
        effects = [
            self.effects.get(record.order.effect_key(name, Direction.DO, number))
            for number in range(len(step.dispatched))
        ]
        newest = effects[-1] if effects else None
        if is_done:
            self.require(newest and newest.done and not newest.undone, f"{place}: not done")
        if state is ProcessState.COMPENSATED and spec.undo:
            self.require(all(each and each.undone for each in effects), f"{place}: not undone")
            is_recorded = not effects or step.undo.state is OperationState.DONE
            self.require(is_recorded, f"{place}: its undo is not on record")

    def _check_all_undone(self, record: TaskRecord) -> None:
        prefix = f"{record.order.task}.{record.order.run_id}/"
        for key, effect in self.effects.items():
            if key.startswith(prefix) and "/do" in key:
                name = key.split("/")[1]
                is_covered = (
                    record.order.by_name[name].undo and (record.order.task, name) not in self.by_operator
                )
                self.require(not is_covered or effect.undone or not effect.done, f"{key}: an effect remains")


def is_same_generation(before: StepRecord, after: StepRecord) -> bool:
    """Return whether two versions of a step carry out and undo the same generation."""
    return (len(before.earlier_dos), before.undone) == (len(after.earlier_dos), after.undone)


def _users(record: TaskRecord, name: str) -> set[str]:
    """Return the steps that need a step, directly or not."""
    users, steps = set[str](), {record.order.by_name[name].step}
    while steps:
        found = {spec.name for spec in record.order.specs if spec.needs & steps} - users
        users |= found
        steps = {record.order.by_name[each].step for each in found}
    return users


def _blocking(record: TaskRecord, name: str) -> list[str]:
    """Return the steps that need a step, directly or not, and whose undo was refused."""
    users = _users(record, name)
    return sorted(each for each in users if record.step(each).undo.state is OperationState.REFUSED)
