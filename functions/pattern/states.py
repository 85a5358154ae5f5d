"""The states of tasks and steps, as the pattern names them."""

from __future__ import annotations

from enum import StrEnum


class ProcessState(StrEnum):
    """Where a task stands."""

    #: Recorded, and waiting for a Scheduler to claim it.
    PENDING = "Pending"
    #: Held by the Scheduler named in `LockedBy`.
    PROCESSING = "Processing"
    #: Every step completed.
    PROCESSED = "Processed"
    #: Given up; an operator decides what happens next.
    ERROR = "Error"
    #: Everything that was done has been undone.
    COMPENSATED = "Compensated"


class StepState(StrEnum):
    """Where one step of a task stands."""

    #: Never dispatched in any epoch, or known not to have been begun.
    NOT_STARTED = "NotStarted"
    #: Dispatched to its Agent, whose outcome is not known yet.
    RUNNING = "Running"
    #: Done, with its result recorded.
    COMPLETED = "Completed"
    #: Refused by the remote service for good.
    FAILED = "Failed"
    #: Not needed for this task, as its `when` says; or it waited when the task was turned back.
    SKIPPED = "Skipped"
    #: Done, but its result can't be recorded: an operator gives it, or has the task undone.
    UNRECORDED = "Unrecorded"
    #: Its undo was dispatched to its Agent, whose outcome is not known yet.
    UNDOING = "Undoing"
    #: Undone at the remote service, which refuses it from now on.
    UNDONE = "Undone"

    @property
    def is_under_way(self) -> bool:
        """Tell whether it was begun, and its end is not known."""
        return self in {StepState.RUNNING, StepState.UNDOING}


class Way(StrEnum):
    """How the Scheduler reaches an Agent."""

    #: An activity function of this application, which calls the remote service and waits for it.
    ACTIVITY = "activity"
    #: A request on the Agent's queue, which any process in any language answers on `agent-replies`.
    QUEUE = "queue"
    #: No Agent: somebody outside tells the event that the step waits for.
    EVENT = "event"
    #: No Agent: the step is done when a time has come.
    TIMER = "timer"
    #: No Agent: the step is a task of another workflow, and done when that is processed.
    WORKFLOW = "workflow"

    @property
    def waits(self) -> bool:
        """Tell whether the step only waits: nothing is asked of an Agent, and its time costs nothing."""
        return self in {Way.EVENT, Way.TIMER, Way.WORKFLOW}

    @property
    def is_answered(self) -> bool:
        """Tell whether something comes from outside that the Scheduler waits for."""
        return self in {Way.QUEUE, Way.EVENT, Way.WORKFLOW}

    @property
    def asks(self) -> bool:
        """Tell whether a request is made for the step."""
        return self not in {Way.EVENT, Way.TIMER}


class Direction(StrEnum):
    """Which way a task is going."""

    #: Steps are being carried out.
    DO = "do"
    #: What was dispatched is being undone, in reverse order.
    UNDO = "undo"


class Remedy(StrEnum):
    """What happens to a task that can't be carried out."""

    #: Everything that was dispatched is undone.
    COMPENSATE = "compensate"
    #: It stays as it is, in `Error`, for an operator.
    HOLD = "hold"
    #: It goes on without the step, whose result is None to those that need it; only a step can say so.
    CONTINUE = "continue"


class Expiry(StrEnum):
    """What becomes of a step whose event did not come in time."""

    #: It is refused, as by a service: its `on_failure` follows.
    REFUSE = "refuse"
    #: Its task stays as it is, in `Error`, for an operator.
    HOLD = "hold"


class EpochEnd(StrEnum):
    """Why an epoch of a task ended and the next one began."""

    #: The Supervisor found the task overdue; it runs again.
    RECOVERED = "recovered"
    #: Its time had been extended in a crowd, and its turn has come; it runs again, which does not count.
    RESUMED = "resumed"
    #: Recoveries were used up; what was dispatched is undone.
    EXHAUSTED = "exhausted"
    #: A remote service refused a step; what was dispatched is undone.
    REFUSED = "refused"
    #: An operator had it run again.
    RESUBMITTED = "resubmitted"
    #: An operator had it undone.
    UNDO_REQUESTED = "undo requested"
    #: Its caller, or an operator, cancelled it; what was dispatched is undone.
    CANCELLED = "cancelled"
    #: An operator found out that a step of unknown outcome was done, and gave its result.
    FOUND_DONE = "found done"
    #: An operator found out that a step of unknown outcome was not done.
    FOUND_NOT_DONE = "found not done"
    #: What it was parked for is deployed; it goes on.
    RELEASED = "released"
    #: An operator parked it: nothing of it runs until an operator unparks it.
    PARKED = "parked"
    #: An operator unparked it; it goes on.
    UNPARKED = "unparked"
    #: An operator gave the result of a step that had failed; it goes on after the step.
    RESULT_GIVEN = "result given"


class Outcome(StrEnum):
    """The outcome of one attempt at a step."""

    #: The remote service did it, and the result is recorded.
    COMPLETED = "completed"
    #: The remote service refused it for good, and the reason is recorded.
    FAILED = "failed"
    #: It is not needed for this task, which is recorded.
    SKIPPED = "skipped"
    #: Its request had waited so long that the Agent did not begin it: it is dispatched again.
    NOT_TAKEN = "not_taken"
    #: It is recorded as running, and the request for it is on the Agent's queue.
    REQUESTED = "requested"
    #: Its complete-by time passed, or its outcome stayed unknown: no outcome was recorded.
    EXPIRED = "expired"
    #: Another epoch or another Scheduler holds the task: nothing was recorded.
    STALE = "stale"


class FaultKind(StrEnum):
    """How a call of a remote service failed that may succeed when it is made again."""

    #: There was no answer: no connection, a lost one, or none in time.
    NO_ANSWER = "no answer"
    #: The service asked for patience: 408, 425 or 429.
    BUSY = "busy"
    #: The service failed: 5xx.
    SERVER_ERROR = "server error"


class AnnouncementKind(StrEnum):
    """What is sent about a task; the notices go to the order's reply queue."""

    #: The order is recorded.
    RECEIVED = "received"
    #: The task was processed.
    COMPLETED = "completed"
    #: The task is in `Error`.
    FAILED = "failed"
    #: Everything was undone.
    COMPENSATED = "compensated"
    #: An operator has to look at the task.
    ALERT = "alert"
    #: The task is a step of another, which has to hear of its end.
    ENDED = "ended"

    @property
    def is_notice(self) -> bool:
        """Tell whether it is for the caller."""
        return self not in {AnnouncementKind.ALERT, AnnouncementKind.ENDED}


class AlertCause(StrEnum):
    """Why operators are alerted of a task; each cause in an epoch is a message of its own."""

    #: The task is in `Error`.
    ERROR = "error"
    #: All recoveries were used, and it is being undone.
    EXHAUSTED = "exhausted"
    #: It is parked.
    PARKED = "parked"
    #: It was processed, and its answer could not be made.
    NO_ANSWER = "no-answer"
    #: Something was noted of a step.
    NOTED = "noted"
