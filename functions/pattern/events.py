"""What can happen to a task, and how an event can be refused.

Each event but the loss of a message carries the epoch that its author knows; an older one is refused.
One that begins an epoch from outside carries its author's span, too (`traceparent`, W3C Trace Context).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from functions.pattern.identity import Epoch, SchedulerId, StepName


class Reason(StrEnum):
    """Why an event counts for nothing."""

    #: It comes from an older epoch: the task was recovered since.
    STALE_EPOCH = "stale epoch"
    #: Another Scheduler holds the task.
    NOT_HOLDER = "not the holder"
    #: The task is in a state that nothing but an operator leaves.
    FINISHED = "finished"
    #: It came after the step's complete-by time.
    LATE = "late"
    #: It does not carry the token of the request that it claims to answer.
    WRONG_TOKEN = "wrong token"  # noqa: S105 - a reason, no secret
    #: Only a task in `Error` waits for an operator.
    NOT_IN_ERROR = "not in error"
    #: The task went on since the Supervisor judged it.
    NOT_OVERDUE = "not overdue"
    #: The step was begun in an older epoch, its outcome is unknown, and it is not idempotent.
    NEVER_TWICE = "never twice"


@dataclass(frozen=True, slots=True)
class Refused:
    """The event must not change the record; nothing is written."""

    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A Scheduler takes the task; `start_by` is when it must have started a step."""

    epoch: Epoch
    scheduler: SchedulerId
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """An Agent is about to call its remote service, to do or to undo as the task's direction says.

    `token` is a secret that goes with a request over a queue; the reply has to show it.
    """

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    complete_by: datetime
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSkipped:
    """The order does not need the step; `start_by` is when what follows must have started."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted:
    """The remote service did its part; `start_by` is when what follows must have started."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    result: bytes = field(repr=False)
    start_by: datetime
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """The remote service refused for good (a nontransient fault); `start_by` is for what follows."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName
    error: str
    start_by: datetime
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """The Supervisor found a task that is not overdue: it looks again at `due_at`."""

    epoch: Epoch
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The Supervisor gives an overdue task to the next epoch, which must have started by `start_by`.

    After an extended wait it starts not before `not_before`.
    """

    epoch: Epoch
    start_by: datetime
    not_before: datetime | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """The Supervisor recovers a task no more: it is held in `Error`, or undone, as its order says.

    `hold` keeps it from being undone, where that is not safe or has failed itself.
    """

    epoch: Epoch
    reason: str
    hold: bool
    start_by: datetime
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmitted:
    """An operator has the task run again, in the direction in which it stopped."""

    epoch: Epoch
    who: str
    reason: str
    start_by: datetime
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequested:
    """An operator has everything undone that was dispatched."""

    epoch: Epoch
    who: str
    reason: str
    start_by: datetime
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLost:
    """A message about the task died on its queue. The task goes on as it was, in whatever epoch it is."""

    queue: str
    message_id: str
    reason: str


StepEvent = StepStarted | StepSkipped | StepCompleted | StepFailed
SchedulerEvent = Claimed | StepEvent
SupervisorEvent = Postponed | Recovered | GivenUp
OperatorEvent = Resubmitted | UndoRequested
Event = SchedulerEvent | SupervisorEvent | OperatorEvent | MessageLost
