"""The class of an error's text: what is the same in all tasks that failed for one cause."""

from __future__ import annotations

import re

from functions.pattern.definition import NAME_PATTERN
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, StepState
from functions.pattern.texts import MAX_ERROR_BYTES, bounded

#: The class is kept in an index row, and stands in an address.
MAX_CLASS_BYTES = 256

#: Stands for what differs from task to task.
_ANYTHING = "…"

#: An error of a step begins with its name, which tells causes apart whatever is in it; items' numbers don't.
_OF_A_STEP = re.compile(rf"((?:undo of )?({NAME_PATTERN}))(?:\.\d{{1,2}})?: ")
_STATUS = r"answered \d{3}(?!\w)"
_QUOTED = r""""[^"]*"|`[^`]*`|“[^”]*”|(?:^|(?<=[\s(\[{=:,]))'[^']*'(?=[\s)\]}=:,.;!?]|$)"""
_PARTS = re.compile(rf"({_STATUS})|{_QUOTED}|[\w./:+@-]+")

_FAILED = frozenset({StepState.FAILED, StepState.UNRECORDED})
_UNDER_WAY = frozenset({StepState.RUNNING, StepState.UNDOING})


def error_class(text: str, task: TaskId | None = None) -> str:
    """Take numbers, ids and quoted values out of an error; a class is its own class.

    The status that a service answered stays: it is the cause.
    """
    text = bounded(text, MAX_ERROR_BYTES)
    begin = _OF_A_STEP.match(text)
    step, said = (f"{begin[1]}: ", text[begin.end() :]) if begin else ("", text)
    if task is not None:
        said = re.sub(rf"(?<![\w-]){task}(?![\w-])", _ANYTHING, said)
    while (same := _PARTS.sub(_same, said)) != said:  # what was quoted in quotes is quoted by now
        said = same
    return bounded(step + said, MAX_CLASS_BYTES)


def _same(part: re.Match[str]) -> str:
    found = part[0]
    if part[1] is not None:
        return found
    differs = found[0] in "\"`“'" or any(each.isdigit() for each in found)
    return _ANYTHING if differs else found


def class_of_task(record: TaskRecord) -> str | None:
    """Give the class of a task's last error, if it has one."""
    error = record.task.last_error
    return None if error is None else error_class(error, record.order.task)


def failed_step(record: TaskRecord) -> StepName | None:
    """Name the step of which a task's last error tells, or of an item of it; None if it tells of none."""
    begin = _OF_A_STEP.match(record.task.last_error or "")
    names = {step.shape.step for step in record.steps}
    return StepName(begin[2]) if begin and begin[2] in names else None


def stands_at(record: TaskRecord, step: StepName) -> bool:
    """Tell whether a task failed at a step, or is at it now, or at any of its items.

    In `Error`, that is the one of which its last error tells.
    """
    if record.task.process_state is ProcessState.ERROR:
        return failed_step(record) == step
    told = _UNDER_WAY if record.task.finished_at is None else _FAILED
    states = {each.state for each in record.steps if each.shape.step == step}
    return bool(states & told) or failed_step(record) == step
