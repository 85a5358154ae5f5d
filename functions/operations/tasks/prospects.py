"""What would follow each action of an operator, or none: tried on the record alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TypedDict

from pydantic import BaseModel

from functions.pattern.decisions import awaited_until, in_question
from functions.pattern.events import (
    Cancelled,
    FoundDone,
    FoundNotDone,
    OperatorEvent,
    ParkingEvent,
    Resubmitted,
    UndoRequested,
)
from functions.pattern.identity import Epoch, StepName
from functions.pattern.operator_events import ParkRequested, ResultGiven, Unparked
from functions.pattern.ready import undo_order
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import Direction
from functions.pattern.step_records import StepRecord
from functions.pattern.texts import MAX_PAST_ERROR_BYTES, bounded
from functions.pattern.transitions import apply
from functions.pattern.wait_events import EventReceived


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


class Skip(BaseModel):
    """A step that failed, and what follows when an operator gives its result."""

    step: StepName
    follows: Prospect


class Prospects(BaseModel):
    """What follows each action, null for one that is refused now, or changes nothing.

    `by_itself` is what follows without any, while the task is under way. While a `question` is open there is
    no `resubmit`; each step that is in question has its `answers`. After `park`, nothing follows. `events`
    names the steps whose events can be told.
    """

    by_itself: Prospect | None
    resubmit: Prospect | None
    undo: Prospect | None
    cancel: Prospect | None
    park: bool
    unpark: Prospect | None
    skips: list[Skip]
    events: list[StepName]
    question: str | None
    answers: list[InQuestion]


class _Trial(TypedDict):
    epoch: Epoch
    who: str
    reason: str
    start_by: datetime


def prospects(record: TaskRecord, now: datetime) -> Prospects | None:
    """Try each action on the record alone; None when the task takes none, and has come to its end."""
    said, record = in_question(record), _with_short_errors(record)
    trial = _Trial(epoch=record.task.epoch, who="", reason="", start_by=now)
    cancelling = Cancelled(who="", reason="", by_operator=True, start_by=now, seen=record.task)
    resubmit = _prospect(record, Resubmitted(**trial), now)
    undo = _prospect(record, UndoRequested(**trial), now)
    cancel = _prospect(record, cancelling, now)
    park = _prospect(record, ParkRequested(**trial), now)
    unpark = _prospect(record, Unparked(**trial), now)
    skips = [
        Skip(step=step.name, follows=follows)
        for step in record.steps
        if (follows := _prospect(record, ResultGiven(**trial, step=step.name, result=b"{}"), now))
    ]
    answers = [found for step in record.steps if (found := _answers(record, step.name, trial, now))]
    question = said if answers else None
    by_itself = _follows(record) if record.task.finished_at is None else None
    if by_itself is resubmit is undo is cancel is None:
        return None
    return Prospects(
        by_itself=None if record.task.is_parked_by_operator else by_itself,
        resubmit=resubmit,
        undo=undo,
        cancel=cancel,
        park=park is not None,
        unpark=unpark,
        skips=skips,
        events=[
            step.name for step in record.steps if step.received is None and _takes_event(record, step, now)
        ],
        question=question,
        answers=answers,
    )


def _with_short_errors(record: TaskRecord) -> TaskRecord:
    """Cut the errors as a closed epoch keeps them: once, and not in each trial, which closes the epoch."""
    steps = tuple(
        each if each.error is None else replace(each, error=bounded(each.error, MAX_PAST_ERROR_BYTES))
        for each in record.steps
    )
    return replace(record, steps=steps)


def _takes_event(record: TaskRecord, step: StepRecord, now: datetime) -> bool:
    event = EventReceived(step=step.name, body=b"{}", who="", start_by=now)
    return not isinstance(apply(record, event, now), Refused)


def _answers(record: TaskRecord, step: StepName, trial: _Trial, now: datetime) -> InQuestion | None:
    done = _prospect(record, FoundDone(**trial, step=step, result=b"{}"), now)
    not_done = _prospect(record, FoundNotDone(**trial, step=step), now)
    return None if done is None else InQuestion(step=step, done=done, not_done=not_done)


def _prospect(
    before: TaskRecord, event: OperatorEvent | ParkingEvent | Cancelled, now: datetime
) -> Prospect | None:
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
