"""Why an event does not change a record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RefusalReason(StrEnum):
    """Why an event is refused."""

    #: It comes from an older epoch: the task was recovered since.
    STALE_EPOCH = "stale epoch"
    #: Another Scheduler holds the task.
    NOT_HOLDER = "not the holder"
    #: The task is in a state that only an operator can change.
    FINISHED = "finished"
    #: It came after the step's complete-by time.
    LATE = "late"
    #: It does not carry the token of the request that it claims to answer.
    WRONG_TOKEN = "wrong token"  # noqa: S105 - a reason, no secret
    #: Only a task in `Error` waits for an operator.
    NOT_IN_ERROR = "not in error"
    #: The task went on since the Supervisor looked at it.
    NOT_OVERDUE = "not overdue"
    #: The step was started in an older epoch, its outcome is unknown, and it is not idempotent.
    NEVER_TWICE = "never twice"
    #: Its Agent had said that it did not take this request, which was dispatched again.
    NOT_TAKEN = "its request was not taken, as was said before"
    #: Another start of the step in this epoch was recorded first: it is another runner's.
    STARTED = "started by another"
    #: A step that must not be repeated is running, and its complete-by has not passed: no epoch ends.
    OUTCOME_AWAITED = "its outcome is awaited"
    #: It is decided how the epoch ends: nothing more starts in it.
    DECIDED = "the end of its epoch is decided"
    #: The outcome of a step that must not be repeated is unknown: an operator has to find it out first.
    OUTCOME_UNKNOWN = "an outcome is unknown"
    #: A step is known to be done, without its result: an operator gives that, or has the task undone.
    KNOWN_DONE = "a step is known to be done"
    #: The outcome of the step is not in question.
    NOT_IN_QUESTION = "not in question"
    #: It was processed too long ago for its caller to cancel it, or its workflow does not allow that at all.
    NOT_CANCELLABLE = "not cancellable"
    #: It is a step of another task, which is to be cancelled instead.
    CHILD = "a step of another task"
    #: It is parked: only the Supervisor has it go on.
    PARKED = "parked"
    #: It is handed back, and waits for an event or a time.
    WAITING = "it waits"
    #: The step has ended without its event.
    STEP_ENDED = "the step has ended"
    #: Another event was told for the step before.
    OTHER_EVENT = "another event was told before"
    #: The task has no such step that waits for an event.
    NO_SUCH_STEP = "no such step"
    #: Only a parked task can be released, and only one that an operator parked can be unparked.
    NOT_PARKED = "not parked"
    #: An operator has parked it: no other parks it again, and its caller can't cancel it.
    PARKED_BY_OPERATOR = "parked by an operator"
    #: Only a task under way can be parked.
    NOT_UNDER_WAY = "not under way"
    #: The step has not failed, so that nobody can give its result in its place.
    NOT_FAILED = "not failed"
    #: A step is under way, so that the task can't be parked.
    BUSY = "a step is under way"
    #: No order was recorded under this id, or it was purged.
    NO_SUCH_TASK = "no such task"


#: Refusals that tell a Scheduler that the task is another's, or nobody's, from now on.
NOT_OURS = frozenset(
    {
        RefusalReason.STALE_EPOCH,
        RefusalReason.NOT_HOLDER,
        RefusalReason.FINISHED,
        RefusalReason.PARKED,
        RefusalReason.WAITING,
        RefusalReason.NO_SUCH_TASK,
    }
)


@dataclass(frozen=True, slots=True)
class Refused:
    """The event must not change the record; nothing is written."""

    reason: RefusalReason
