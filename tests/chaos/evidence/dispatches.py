"""Dispatches of steps to their Agents: those on record, and those that Agents behind queues were sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.chaos.app.journal import AskedStep
from tests.chaos.app.sending import true_times
from tests.chaos.evidence.clocks import ToldTimes
from tests.chaos.evidence.rows import RawStep, TaskRows


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A step that was dispatched to its Agent, from `started_at` until `complete_by` (UTC).

    Of an undo, `started_at` is that of what it undoes.
    """

    step: str
    direction: str
    started_at: datetime | None
    complete_by: datetime


#: Times come from processes of one machine, in microseconds; their rounding may differ.
GRAIN = timedelta(milliseconds=5)


@dataclass(frozen=True, slots=True)
class Request:
    """What the journal says of a dispatch over a queue, in which epoch it was: it is no proof by itself."""

    epoch: int
    dispatch: Dispatch


def dispatches(rows: TaskRows) -> Iterator[Dispatch]:
    """Yield the dispatches that rows show: the steps of each epoch that carry its number.

    The next one in the same epoch takes the row of one that was not taken; and the complete-by of one that
    its Agent gave up is brought forward, while its request may be delivered again, and has its time.
    """
    for epoch in rows.history:
        yield from _dispatched(epoch.epoch, epoch.direction, epoch.steps)
    if rows.task is not None:
        yield from _dispatched(rows.task.epoch, rows.task.direction, rows.steps)


def asked(steps: Iterable[AskedStep]) -> Mapping[str, Collection[Request]]:
    """Give what was asked for over queues by task, with its true time in the place of that on record."""
    found = defaultdict[str, set[Request]](set)
    for each in steps:
        [at] = true_times(each.at)
        dispatch = Dispatch(each.step, each.direction, at, each.complete_by)
        found[each.task].add(Request(each.epoch, dispatch))
    return found


def vouched(requests: Iterable[Request], rows: TaskRows, told: ToldTimes) -> Iterator[Dispatch]:
    """Yield what was asked for in an epoch in which rows show that its step was begun, and not before that.

    The journal is written by the act of sending: alone, it would vouch for what is on no record. Where the
    row is of another dispatch in this epoch, that one's begin says nothing of this one's.
    """
    for request in requests:
        asked = request.dispatch
        begun = [
            (step, direction)
            for direction, steps in _looks(rows)
            for step in steps
            if (step.name, step.epoch) == (asked.step, request.epoch)
        ]
        if asked.direction == "undo":
            if any(direction == "undo" for _, direction in begun):
                yield asked
        elif begun and not any(_is_asked_too_early(asked, step, told) for step, _ in begun):
            yield asked


def _is_asked_too_early(asked: Dispatch, step: RawStep, told: ToldTimes) -> bool:
    if step.complete_by != asked.complete_by or step.started_at is None or asked.started_at is None:
        return False
    return asked.started_at < told.earliest(step.started_at) - GRAIN


def _looks(rows: TaskRows) -> Iterator[tuple[str, Sequence[RawStep]]]:
    yield from ((epoch.direction, epoch.steps) for epoch in rows.history)
    if rows.task is not None:
        yield rows.task.direction, rows.steps


def _dispatched(epoch: int, direction: str, steps: Sequence[RawStep]) -> Iterator[Dispatch]:
    for step in steps:
        if step.epoch == epoch and step.complete_by is not None:
            yield Dispatch(step.name, direction, step.started_at, step.complete_by)
