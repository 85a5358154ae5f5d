"""Which of the steps that fit into a run find a place at their service, where its calls are limited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import Way

#: Tells whether a step that is ready has a place at its service: False while one is waited for, and a time
#: (UTC) where there was none, at which to try again.
HasPlace = Callable[[StepName], bool | datetime]


@dataclass(frozen=True, slots=True)
class PlacedSteps:
    """The steps that can start, and are left to another run; and when to try again for those without place.

    A place is waited for here for those that are `awaited`.
    """

    started: tuple[StepName, ...]
    left: tuple[StepName, ...]
    again_at: tuple[datetime, ...]
    awaited: tuple[StepName, ...]

    @property
    def without(self) -> int:
        """Count the steps that found no place."""
        return len(self.again_at) + len(self.awaited)


def placed_steps(
    record: TaskRecord, fitting: Sequence[StepName], room: int, has_place: HasPlace
) -> PlacedSteps:
    """Find places for as many steps as there is room for; Agents behind queues find their own."""
    started: list[StepName] = []
    left: list[StepName] = []
    again_at: list[datetime] = []
    awaited: list[StepName] = []
    for name in fitting:
        if len(started) >= room:
            left.append(name)
            continue
        found = record.step(name).shape.via is Way.QUEUE or has_place(name)
        if isinstance(found, datetime):
            again_at.append(found)
        elif found:
            started.append(name)
        else:
            awaited.append(name)
    return PlacedSteps(tuple(started), tuple(left), tuple(again_at), tuple(awaited))
