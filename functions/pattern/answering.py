"""What is told of the answer of a processed task, where it could not be made."""

from __future__ import annotations

from functions.pattern.records import Task
from functions.pattern.states import ProcessState

#: All that a caller is told of an answer that could not be made; the rest may hold what is not for callers.
NO_ANSWER = "its answer can't be given"


def lacks_answer(task: Task) -> bool:
    """Tell whether a task was processed, and its answer could not be made."""
    return task.process_state is ProcessState.PROCESSED and task.last_error is not None


def error_for_caller(task: Task) -> str | None:
    """Give the last error as a caller is told it."""
    return NO_ANSWER if lacks_answer(task) else task.last_error
