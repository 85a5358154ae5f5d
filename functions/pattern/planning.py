"""Which steps of a task can be dispatched now."""

from __future__ import annotations

from functions.pattern.definition import Workflow
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, StepState

_UNFINISHED = frozenset({StepState.NOT_STARTED, StepState.RUNNING})


def ready_steps(workflow: Workflow, record: TaskRecord) -> tuple[StepName, ...]:
    """Name the unfinished steps whose needs are met, in the order of their definition.

    A step that is `Running` is named again: after a recovery somebody has to take it up, and a
    Scheduler that dispatched it itself knows so.
    """
    if record.task.process_state is not ProcessState.PROCESSING:
        return ()
    completed = {step.name for step in record.steps if step.state is StepState.COMPLETED}
    return tuple(
        step.name
        for step in workflow.steps
        if step.needs <= completed and record.step(step.name).state in _UNFINISHED
    )
