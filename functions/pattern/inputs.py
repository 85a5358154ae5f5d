"""What a definition's functions get of a task's steps: those of a step, and a workflow's `answer`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from functions.pattern.identity import StepName, step_of
from functions.pattern.records import TaskRecord
from functions.pattern.step_records import StepRecord

#: Reads a step's result; None where there is none, or none that is known.
Read = Callable[[StepRecord], Any]


class _Results(dict[StepName, Any]):
    """Results of steps; asked for another, it says what is missing in the definition."""

    def __init__(self, results: dict[StepName, Any], step: StepName) -> None:
        super().__init__(results)
        self._step = step

    def __missing__(self, name: StepName) -> Any:
        raise KeyError(f"step '{self._step}' gets no result of '{name}': add it to its needs")


def result_of(step: StepRecord) -> Any:
    """Give a step's result as it is recorded."""
    return None if step.known_result is None else json.loads(step.known_result)


def results_of(record: TaskRecord, step: StepName, read: Read = result_of) -> dict[StepName, Any]:
    """Give the results of exactly the steps that `step` needs, and that these need; None for a skipped one.

    So the result of a step that may or may not have ended by then is never there by chance.
    """
    return _Results(_results(record, needed(record, step), read), step)


def undo_results_of(record: TaskRecord, step: StepName, read: Read = result_of) -> dict[StepName, Any]:
    """Give what `undo_request` gets: the results as above, and the step's own; None where it is unknown.

    Of a for-each step, that is the one item's.
    """
    own = {step_of(step): read(record.step(step))}
    return _Results({**results_of(record, step, read), **own}, step)


def all_results(record: TaskRecord, read: Read = result_of) -> dict[StepName, Any]:
    """Give the results of all steps; None for a skipped one."""
    return _results(record, [step.name for step in record.order.shape.steps], read)


def _results(record: TaskRecord, names: Collection[StepName], read: Read) -> dict[StepName, Any]:
    """Give the results of the steps of these names: of a for-each step, the list of its items'."""
    found = defaultdict[StepName, list[Any]](list)
    for step in record.steps:
        if step.shape.step in names:
            found[step.shape.step].append(read(step))
    lists = {step.name for step in record.order.shape.steps if step.at_once is not None}
    return {name: found[name] if name in lists else found[name][0] for name in names}


def needed(record: TaskRecord, step: StepName) -> tuple[StepName, ...]:
    """Name all that come before a step, in the task's order."""
    needs = {each.name: each.needs for each in record.order.shape.steps}
    found: set[StepName] = set()
    waiting = set(needs[step_of(step)])
    while waiting:
        found |= waiting
        waiting = {further for name in waiting for further in needs[name]} - found
    return tuple(name for name in needs if name in found)
