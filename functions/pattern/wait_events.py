"""What happens to tasks that wait; the other events are in `events.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from functions.pattern.identity import Epoch, SchedulerId, StepName


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """Nothing runs, and only events or times are awaited for long: the Scheduler lets go of the task."""

    epoch: Epoch
    scheduler: SchedulerId


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsEnded:
    """The time of steps has passed that end by it; `scheduler` holds the task, None is the Supervisor.

    The next run must have started by `start_by`.
    """

    epoch: Epoch
    scheduler: SchedulerId | None
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceived:
    """`who` told the event that a step waits for, in whatever epoch the task is; `body` is JSON.

    An operator says a `reason`.
    """

    step: StepName
    body: bytes = field(repr=False)
    who: str
    start_by: datetime
    reason: str | None = None
