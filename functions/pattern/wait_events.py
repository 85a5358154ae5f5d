"""What happens to tasks that wait, also for their children; the other events are in `events.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from functions.pattern.identity import Birth, Epoch, SchedulerId, StepName
from functions.pattern.states import StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """Nothing runs, and only events or times are awaited for long: the Scheduler lets go of the task."""

    epoch: Epoch
    scheduler: SchedulerId


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOff:
    """No step that is ready has a place at its service: its Scheduler lets go of the task, or keeps it.

    The next run tries again, not before `not_before`; it must have started by `start_by`. So must something
    of a task that is kept, beside a step that runs.
    """

    epoch: Epoch
    scheduler: SchedulerId
    not_before: datetime
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsEnded:
    """The time of steps has passed; `scheduler` holds the task, None is the Supervisor.

    They end by it, but for an event whose teller was turned away. The next run must have started by
    `start_by`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway:
    """Who told the event of a step has to try again, as its version is not deployed there."""

    step: StepName


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnded:
    """The task that is a step has come to its end: the step is Completed, Unrecorded, or (undone) Failed.

    It counts in whatever epoch its parent is, which must be of that `birth`. `result` is JSON.
    """

    birth: Birth
    step: StepName
    state: StepState
    start_by: datetime
    result: bytes | None = field(default=None, repr=False)
    error: str | None = None
