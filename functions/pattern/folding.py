"""Folds the events that wait for one task into one change of its record, with an answer for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from functions.pattern.errors import IllegalTransitionError
from functions.pattern.events import Event
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import ProcessState
from functions.pattern.transitions import apply

#: Plans what follows from a record at a time, as events that are folded with the one that led to it. It is
#: pure, and asked again when the fold is repeated on a newer record.
Follow = Callable[[TaskRecord, datetime], Sequence[Event]]

#: Completes the record of a task that has just become `Processed`, within the same change, or parks the task
#: where it can't be completed; it is pure, too.
Complete = Callable[[TaskRecord], TaskRecord]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the deployed definitions have a say in, as a task changes."""

    complete: Complete = lambda record: record


NO_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Told:
    """An event that a task is told, and what may follow from it at once."""

    event: Event
    follow: Follow | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One event's change of a record."""

    before: TaskRecord
    after: TaskRecord
    event: Event


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one told event: the record after it, and its changes, or why there are none."""

    record: TaskRecord
    changes: tuple[Change, ...] = ()
    fault: Refused | IllegalTransitionError | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """Give the events behind the changes: the told one, and those that followed and hold."""
        return tuple(change.event for change in self.changes)


@dataclass(frozen=True, slots=True)
class Fold:
    """All answers, in the order in which the events were told, and the record after all of them."""

    record: TaskRecord
    answers: tuple[Answer, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """Give each change; nothing may be concluded from the first and the last record alone."""
        return tuple(change for answer in self.answers for change in answer.changes)


def fold(record: TaskRecord, told: Sequence[Told], now: datetime, rules: Rules = NO_RULES) -> Fold:
    """Apply the events one after another, each with what follows from it."""
    answers: list[Answer] = []
    for each in told:
        answer = _answer(record, each, now, rules)
        answers.append(answer)
        record = answer.record
    return Fold(record, tuple(answers))


def _answer(record: TaskRecord, told: Told, now: datetime, rules: Rules) -> Answer:
    try:
        after = _applied(record, told.event, now, rules)
    except IllegalTransitionError as error:
        return Answer(record, fault=error)
    if isinstance(after, Refused):
        return Answer(record, fault=after)
    changes = [] if after is record else [Change(record, after, told.event)]
    if told.follow is not None:
        changes += _followed(after, told.follow, now, rules)
    return Answer(changes[-1].after if changes else record, tuple(changes))


def _followed(record: TaskRecord, follow: Follow, now: datetime, rules: Rules) -> list[Change]:
    """Apply what follows, and what follows from that, until nothing changes; what is refused is left out."""
    changes: list[Change] = []
    while True:
        known = len(changes)
        for event in follow(record, now):
            after = _applied_if_it_holds(record, event, now, rules)
            if after is not record:
                changes.append(Change(record, after, event))
                record = after
        if len(changes) == known:
            return changes


def _applied_if_it_holds(record: TaskRecord, event: Event, now: datetime, rules: Rules) -> TaskRecord:
    try:
        after = _applied(record, event, now, rules)
    except IllegalTransitionError:
        return record
    return record if isinstance(after, Refused) else after


def _applied(record: TaskRecord, event: Event, now: datetime, rules: Rules) -> TaskRecord | Refused:
    after = apply(record, event, now)
    if isinstance(after, Refused) or after.task.process_state is not ProcessState.PROCESSED:
        return after
    return after if record.task.process_state is ProcessState.PROCESSED else rules.complete(after)
