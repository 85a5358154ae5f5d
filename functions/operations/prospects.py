"""What each of an operator's actions would do to a task, told before it is done."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from functions.pattern.events import Refused, Resubmitted, UndoRequested
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction
from functions.pattern.transitions import apply


class Prospect(BaseModel):
    """What follows an action: steps that are run, or undone, in this order.

    `twice` are those that must not run twice, were begun before, and would be begun once more.
    """

    runs: list[StepName]
    undoes: list[StepName]
    twice: list[StepName]


class Prospects(BaseModel):
    """What follows each action on a task in `Error`."""

    resubmit: Prospect
    undo: Prospect


def prospects(record: TaskRecord, now: datetime) -> Prospects | None:
    """Try each action on the record alone; None when the task takes none."""
    epoch = record.task.epoch
    resubmitted = apply(record, Resubmitted(epoch=epoch, who="", reason="", start_by=now), now)
    undone = apply(record, UndoRequested(epoch=epoch, who="", reason="", start_by=now), now)
    if isinstance(resubmitted, Refused) or isinstance(undone, Refused):
        return None
    return Prospects(resubmit=_prospect(record, resubmitted), undo=_prospect(record, undone))


def _prospect(before: TaskRecord, after: TaskRecord) -> Prospect:
    if after.task.direction is Direction.UNDO:
        return Prospect(runs=[], undoes=_undoes(after), twice=[])
    return Prospect(
        runs=[step.name for step in after.steps if not step.settled],
        undoes=[],
        twice=[step.name for step in before.steps if step.never_twice],
    )


def _undoes(record: TaskRecord) -> list[StepName]:
    """Name what is undone: in reverse order of dispatch."""
    dispatched = sorted(
        (step.started_at, number, step.name)
        for number, step in enumerate(record.steps)
        if step.needs_undo and step.started_at is not None
    )
    return [name for _, _, name in reversed(dispatched)]
