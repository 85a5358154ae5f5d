"""Dispatches of steps to their Agents: those on record, and those that Agents behind queues were sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.chaos.app.journal import AskedStep
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


def dispatches(rows: TaskRows) -> Iterator[Dispatch]:
    """Yield the dispatches that rows show: the steps of each epoch that carry its number.

    The next one in the same epoch takes the row of one that was not taken; and the complete-by of one that
    its Agent gave up is brought forward, while its request may be delivered again, and has its time.
    """
    for epoch in rows.history:
        yield from _dispatched(epoch.epoch, epoch.direction, epoch.steps)
    if rows.task is not None:
        yield from _dispatched(rows.task.epoch, rows.task.direction, rows.steps)


def asked(steps: Iterable[AskedStep], within: timedelta) -> Mapping[str, Collection[Dispatch]]:
    """Give the dispatches over queues by task; each has so much time."""
    found = defaultdict[str, set[Dispatch]](set)
    for each in steps:
        began = each.complete_by - within if each.direction == "do" else None
        found[each.task].add(Dispatch(each.step, each.direction, began, each.complete_by))
    return found


def _dispatched(epoch: int, direction: str, steps: Sequence[RawStep]) -> Iterator[Dispatch]:
    for step in steps:
        if step.epoch == epoch and step.complete_by is not None:
            yield Dispatch(step.name, direction, step.started_at, step.complete_by)
