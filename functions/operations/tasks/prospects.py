"""What would follow each action of an operator, or none: tried on the record alone."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from pydantic import BaseModel

from functions.pattern.decisions import awaited_until, in_question
from functions.pattern.events import (
    Cancelled,
    FoundDone,
    FoundNotDone,
    OperatorEvent,
    Resubmitted,
    UndoRequested,
)
from functions.pattern.identity import Epoch, StepName
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import Direction
from functions.pattern.steps import undo_order
from functions.pattern.transitions import apply


class Prospect(BaseModel):
    """What follows: steps that are run, or undone, in this order. Without either, the task ends.

    `waits_until` is the latest time by which it happens, while the outcome of a step is awaited first.
    """

    runs: list[StepName]
    undoes: list[StepName]
    waits_until: datetime | None


class InQuestion(BaseModel):
    """A step in question, and what follows each answer: none but `done` where that is known."""

    step: StepName
    done: Prospect
    not_done: Prospect | None


class Prospects(BaseModel):
    """What follows each action, null for one that is refused now, or changes nothing.

    `by_itself` is what follows without any, while the task is under way. While a `question` is open there is
    no `resubmit`; each step that is in question has its `answers`.
    """

    by_itself: Prospect | None
    resubmit: Prospect | None
    undo: Prospect | None
    cancel: Prospect | None
    question: str | None
    answers: list[InQuestion]


class _Trial(TypedDict):
    epoch: Epoch
    who: str
    reason: str
    start_by: datetime


def prospects(record: TaskRecord, now: datetime) -> Prospects | None:
    """Try each action on the record alone; None when the task takes none, and has come to its end."""
    trial = _Trial(epoch=record.task.epoch, who="", reason="", start_by=now)
    cancelling = Cancelled(who="", reason="", by_operator=True, start_by=now)
    resubmit = _prospect(record, Resubmitted(**trial), now)
    undo = _prospect(record, UndoRequested(**trial), now)
    cancel = _prospect(record, cancelling, now)
    answers = [found for step in record.steps if (found := _answers(record, step.name, trial, now))]
    question = in_question(record) if answers else None
    by_itself = _follows(record) if record.task.finished_at is None else None
    if by_itself is resubmit is undo is cancel is None:
        return None
    return Prospects(
        by_itself=by_itself, resubmit=resubmit, undo=undo, cancel=cancel, question=question, answers=answers
    )


def _answers(record: TaskRecord, step: StepName, trial: _Trial, now: datetime) -> InQuestion | None:
    done = _prospect(record, FoundDone(**trial, step=step, result=b"{}"), now)
    not_done = _prospect(record, FoundNotDone(**trial, step=step), now)
    return None if done is None else InQuestion(step=step, done=done, not_done=not_done)


def _prospect(before: TaskRecord, event: OperatorEvent | Cancelled, now: datetime) -> Prospect | None:
    after = apply(before, event, now)
    if isinstance(after, Refused) or after is before:
        return None
    return _follows(after)


def _follows(record: TaskRecord) -> Prospect:
    decision = record.task.decision
    waits_until = None if decision is None else awaited_until(record)
    if decision is not None and decision.ended_by is None:
        return Prospect(runs=[], undoes=[], waits_until=waits_until)
    if decision is not None or record.task.direction is Direction.UNDO:
        return Prospect(runs=[], undoes=list(undo_order(record)), waits_until=waits_until)
    runs = [step.name for step in record.steps if not step.settled]
    return Prospect(runs=runs, undoes=[], waits_until=None)
