"""What can happen to a task; an event from an older epoch is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functions.pattern.announcements import Announcement
from functions.pattern.identity import Epoch, SchedulerId, StartId, StepName
from functions.pattern.operator_events import ParkRequested, ResultGiven, Unparked
from functions.pattern.records import Task
from functions.pattern.wait_events import (
    ChildEnded,
    EventReceived,
    HandedBack,
    PutOff,
    TurnedAway,
    WaitsEnded,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A Scheduler claims the task; `start_by` is when it must have started a step."""

    epoch: Epoch
    scheduler: SchedulerId
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfStep:
    """What happened to one step, and who says so."""

    epoch: Epoch
    scheduler: SchedulerId
    step: StepName


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(_OfStep):
    """A step is about to be done or undone by the `run_steps` of number `activity`.

    `start_id` is this start's alone. A reply over a queue has to show the secret `token`.
    """

    complete_by: datetime
    activity: int
    start_id: StartId
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSkipped(_OfStep):
    """The order does not need the step; `start_by` is when what follows must have started."""

    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome(_OfStep):
    """What came of the start `start_id`; over a queue, it has to show the `token` of the request."""

    start_by: datetime
    start_id: StartId | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(_Outcome):
    """The remote service did its part; `start_by` is when what follows must have started."""

    result: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed(_Outcome):
    """The remote service refused (a nontransient fault); `start_by` is for what follows."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUnrecorded(_Outcome):
    """The remote service did its part, but the result can't be recorded."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNotTaken(_Outcome):
    """The step's request waited too long for its Agent, which did not begin it, and never will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUnknown(_Outcome):
    """Nobody knows what came of a step that may fail, and nothing more is tried: the task goes on."""

    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBroken(_OfStep):
    """A function of the step's definition has a defect; `start_by` is for what follows."""

    error: str
    start_by: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTried(_OfStep):
    """So many calls of a running step have failed, the last of them with `fault`; it goes on.

    Unless its Agent has ended it, without an outcome: nothing more comes after `ended_by`.
    """

    start_id: StartId | None
    attempts: int
    fault: str
    ended_by: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """What the task needs of its workflow is not deployed where its Scheduler runs, or the Supervisor.

    `scheduler` held the task until then; None if the Supervisor found one that nobody had claimed, or that
    is parked for another reason by now. What of the reason stays as it is, however often it is told, is
    `lasting`: all of it, unless given. It is parked for an event that could not be told only while the time
    of that step, `untold`, is over.
    """

    epoch: Epoch
    scheduler: SchedulerId | None
    reason: str
    lasting: str | None = None
    untold: StepName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """The Supervisor found a task that is not overdue: it looks again at `due_at`."""

    epoch: Epoch
    due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """The Supervisor gives more time to a task that is late in a crowd, `behind` what has the `cause`.

    If it `asks`, nobody has claimed the task: its Scheduler is asked for again, in its epoch.
    """

    epoch: Epoch
    until: datetime
    behind: str
    cause: str
    asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _EndsEpoch:
    """An intervention in the span `traceparent` (W3C); the next epoch must have started by `start_by`."""

    epoch: Epoch
    start_by: datetime
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered(_EndsEpoch):
    """The Supervisor gives an overdue task to the next epoch, which starts not before `not_before`."""

    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(_EndsEpoch):
    """The Supervisor gives a task to the next epoch that was late in a crowd, as in `Extended`: uncounted.

    It starts not before `not_before`: those that have their turn together do not come back at once. What was
    `lost` with the epoch counts as an extension does.
    """

    behind: str
    cause: str
    lost: timedelta
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp(_EndsEpoch):
    """The Supervisor gives up recovery: the task is undone if its order says so, and not told to `hold`."""

    reason: str
    hold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDue(_EndsEpoch):
    """The Supervisor found that the time has passed for which a decision waited, or what is known by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(_EndsEpoch):
    """The Supervisor found that a parked task can go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resubmitted(_EndsEpoch):
    """An operator has the task run again, in the direction in which it stopped."""

    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequested(_EndsEpoch):
    """An operator has everything undone that was dispatched."""

    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDone(_EndsEpoch):
    """An operator found out that a step whose outcome was unknown is done, with this result."""

    step: StepName
    result: bytes = field(repr=False)
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNotDone(_EndsEpoch):
    """An operator found out that a step whose outcome was unknown is not done: it can run."""

    step: StepName
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Its caller, or an operator, has a task undone, whatever it does, and in whatever epoch it is.

    A caller can do so while it is under way, and for a while after it was processed. Who has `seen` how the
    task stood means no other epoch, and not what has ended since. `traceparent` and `start_by` are as above.
    """

    who: str
    reason: str
    by_operator: bool
    start_by: datetime
    traceparent: str | None = None
    seen: Task | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLost:
    """A message about the task was dead-lettered. The task goes on as it was, in whatever epoch it is."""

    queue: str
    message_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementSent:
    """An announcement was sent at `sent_at`. The task goes on as it was, in whatever epoch it is."""

    announcement: Announcement
    sent_at: datetime


StepOutcome = StepCompleted | StepFailed | StepUnrecorded
#: What a reply over a queue can tell.
StepReply = StepOutcome | StepNotTaken
StepEvent = StepStarted | StepSkipped | StepReply | StepUnknown | StepBroken | StepTried
SchedulerEvent = Claimed | Parked | HandedBack | PutOff | StepEvent
#: What the Supervisor does about a task that is late, or seems to be.
Intervention = Postponed | Recovered | GivenUp | DecisionDue
#: What it does in a crowd about one that is late.
Eased = Extended | Resumed
#: What can come of a look at a task that is due.
Judgement = Intervention | WaitsEnded
SupervisorEvent = Judgement | Eased | Released
OperatorAction = Resubmitted | UndoRequested
OperatorAnswer = FoundDone | FoundNotDone
#: What operators do to a task in `Error`.
OperatorEvent = OperatorAction | OperatorAnswer | ResultGiven
#: How operators keep a task from going on, whatever becomes of deployments, and have it go on.
ParkingEvent = ParkRequested | Unparked
#: What counts in whatever epoch the task is.
AnyTimeEvent = Cancelled | EventReceived | TurnedAway | ChildEnded | MessageLost | AnnouncementSent
Event = SchedulerEvent | SupervisorEvent | OperatorEvent | ParkingEvent | AnyTimeEvent
