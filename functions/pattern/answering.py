"""What is told of the answer of a processed task, where it could not be made."""

from __future__ import annotations

from functions.pattern.records import Task
from functions.pattern.states import ProcessState

#: How the error of a processed task begins: its answer could not be made.
NO_ANSWER = "its answer can't be given"


def lacks_answer(task: Task) -> bool:
    """Tell whether a task was processed, and its answer could not be made."""
    return task.process_state is ProcessState.PROCESSED and task.last_error is not None
