"""Events whose time ends where nobody could tell them, as their task's version is not deployed there."""

from __future__ import annotations

from datetime import datetime

from functions.pattern.definition import Registry
from functions.pattern.epochs import is_busy
from functions.pattern.events import Parked
from functions.pattern.readiness import Definitions, NotDeployedError, lack_of
from functions.pattern.records import TaskRecord
from functions.pattern.states import Way
from functions.pattern.waits import over


def untold(registry: Registry, record: TaskRecord, now: datetime) -> Parked | None:
    """Have a task be parked, not ended, as an event's time is over; None if it could be told here.

    A task is not parked beside a step under way: then the event's step ends as its shape says,
    unless its teller was turned away.
    """
    if is_busy(record):
        return None
    here = Definitions(registry, record)
    for name in over(record, now):
        if record.step(name).shape.via is Way.EVENT:
            try:
                here.event_model(name)
            except NotDeployedError as fault:
                return lack_of(fault).parked(record.task.epoch, record.task.locked_by, untold=name)
    return None
