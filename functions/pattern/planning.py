"""Which steps of a task can be dispatched now."""

from __future__ import annotations

from functions.pattern.definition import Workflow
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState, StepState

_UNFINISHED = frozenset({StepState.NOT_STARTED, StepState.RUNNING})


def ready_steps(workflow: Workflow, record: TaskRecord) -> tuple[StepName, ...]:
    """Name the steps that can be dispatched, in the direction in which the task goes.

    A step that is under way is named again: after a recovery another Scheduler must run it, and the
    Scheduler that dispatched it itself ignores it.
    """
    if record.task.process_state is not ProcessState.PROCESSING:
        return ()
    if record.task.direction is Direction.UNDO:
        return undo_order(record)[:1]
    settled = {step.name for step in record.steps if step.settled}
    return tuple(
        step.name
        for step in workflow.steps
        if step.needs <= settled and record.step(step.name).state in _UNFINISHED
    )


def undo_order(record: TaskRecord) -> tuple[StepName, ...]:
    """Name the steps that are still to be undone, one after another: in reverse order of dispatch."""
    dispatched = sorted(
        (step.started_at, number, step.name)
        for number, step in enumerate(record.steps)
        if step.needs_undo and step.started_at is not None
    )
    return tuple(name for _, _, name in reversed(dispatched))
