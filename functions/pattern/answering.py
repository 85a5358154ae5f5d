"""The answer that a caller gets of a processed task: what its workflow makes of payload and results."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.definition import Registry
from functions.pattern.errors import PermanentError
from functions.pattern.inputs import all_results
from functions.pattern.records import MAX_ANSWER_BYTES, Task, TaskRecord
from functions.pattern.requests import json_bytes
from functions.pattern.states import ProcessState
from functions.pattern.texts import MAX_ERROR_BYTES, bounded, cause_of

#: How the error of a processed task begins: its answer could not be made.
NO_ANSWER = "its answer can't be given"


def answered(registry: Registry, record: TaskRecord) -> TaskRecord:
    """Give a processed task its answer; where that fails, its `last_error` says why."""
    try:
        answer, error = _answer(registry, record), None
    except PermanentError as refusal:
        answer, error = None, str(refusal)
    except Exception as defect:  # noqa: BLE001 - whatever a definition's function raises
        answer, error = None, cause_of(defect)
    if error is not None:
        error = bounded(f"{NO_ANSWER}: {error}", MAX_ERROR_BYTES)
    return replace(record, task=replace(record.task, answer=answer, last_error=error))


def _answer(registry: Registry, record: TaskRecord) -> bytes | None:
    order = record.order
    workflow = registry.find(order.workflow, order.workflow_version)
    if workflow is None:
        raise PermanentError(f"version {order.workflow_version} of '{order.workflow}' is not deployed here")
    if workflow.answer is None:
        return None
    answer = workflow.answer(workflow.payload.model_validate_json(order.payload), all_results(record))
    if not isinstance(answer, dict):
        raise PermanentError(f"it is of type {type(answer).__name__}, not a dict")
    return json_bytes("answer", answer, MAX_ANSWER_BYTES)


def lacks_answer(task: Task) -> bool:
    """Tell whether a task was processed, and its answer could not be made."""
    return task.process_state is ProcessState.PROCESSED and task.last_error is not None
