"""Which steps of a task can be dispatched now, and in which order they are undone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from functions.pattern.epochs import UNDER_WAY
from functions.pattern.identity import Epoch, StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState, StepState
from functions.pattern.step_records import StepRecord


def undo_order(record: TaskRecord) -> tuple[StepName, ...]:
    """Name the steps that are still to be undone, one after another: in reverse order of dispatch."""
    dispatched = sorted(
        (step.started_at, number, step.name)
        for number, step in enumerate(record.steps)
        if step.needs_undo and step.started_at is not None
    )
    return tuple(name for _, _, name in reversed(dispatched))


def ready_steps(record: TaskRecord) -> tuple[StepName, ...]:
    """Name the steps that can be dispatched, in the direction in which the task goes.

    A step that an older epoch dispatched is dispatched again, unless it must not run twice. Nothing starts
    any more once it is decided how the epoch ends.
    """
    if record.task.process_state is not ProcessState.PROCESSING or record.task.decision is not None:
        return ()
    epoch = record.task.epoch
    if record.task.direction is Direction.UNDO:
        next_undone = (record.step(name) for name in undo_order(record)[:1])
        return tuple(
            step.name
            for step in next_undone
            if step.may_be_dispatched(epoch) and not is_under_way(step, record)
        )
    settled = {step.name for step in record.steps if step.settled}
    ready = (step for step in record.steps if step.shape.needs <= settled and _can_start(step, epoch))
    return tuple(step.name for step in _with_room(record, ready))


def is_under_way(step: StepRecord, record: TaskRecord) -> bool:
    """Tell whether this epoch has dispatched a step whose outcome is awaited."""
    is_of_epoch = step.state is UNDER_WAY[record.task.direction] and step.epoch == record.task.epoch
    return is_of_epoch and not step.was_not_taken


def _can_start(step: StepRecord, epoch: Epoch) -> bool:
    if step.state is StepState.NOT_STARTED:
        return step.may_be_dispatched(epoch)
    is_of_older_epoch = step.state is StepState.RUNNING and step.epoch != epoch
    return is_of_older_epoch and not (step.never_twice or step.shape.via.waits)


def _with_room(record: TaskRecord, ready: Iterable[StepRecord]) -> Iterator[StepRecord]:
    """Leave out items for which there is no room beside those of their step that are under way."""
    room: dict[StepName, int] = {}
    for step in ready:
        if step.shape.at_once is not None:
            of = step.shape.step
            if of not in room:
                running = [
                    each for each in record.steps_of(of) if is_under_way(each, record) or each.is_waiting
                ]
                room[of] = step.shape.at_once - len(running)
            if room[of] <= 0:
                continue
            room[of] -= 1
        yield step
