"""The invariants by name, and what is reported when one does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Invariant(Enum):
    """An invariant by its number in `docs/reliability.md`."""

    #: Every order that was answered 202 has its task; every poison message is recorded.
    NO_LOSS = "I1"
    #: Each step is done at most once and undone at most once.
    ONE_EFFECT = "I2"
    #: Each step of a `Processed` task is done; none of a `Compensated` one is.
    NET_EFFECT = "I3"
    #: One Scheduler holds a task; epochs never decrease; one of two operators wins.
    MUTUAL_EXCLUSION = "I4"
    #: States follow the transition table; only operators, and cancels, lead out of a final state.
    MONOTONE = "I5"
    #: Nothing is called before its dispatch is recorded, or undone before the task's direction is undo.
    ORDER = "I6"
    #: After the last fault, every task is finished, and every queue empty, in bounded time.
    TERMINATION = "I7"
    #: No call begins after complete-by, no outcome is recorded after it.
    SILENCE_OF_THE_LATE = "I8"
    #: `FailureCount` is the number of recoveries, and never above the limit.
    FAILURE_COUNT = "I9"
    #: No task is ever seen without its order, its steps and its index row.
    ATOMIC_BIRTH = "I10"
    #: Callers get a notice of everything that happened, and none after the end.
    STATUS_AGREES = "I11"
    #: The operator gets an alert of each `Error`, and of each task that the Supervisor gave up.
    ALERTS = "I12"
    #: What a caller cancelled is undone, once.
    CANCELLED = "I15"
    #: What concerns others, or nobody, costs a task nothing: it ends as it would have, without a recovery.
    UNHARMED = "I16"
    #: A service has no more calls in flight than its limit allows, over all hosts.
    LIMIT = "I17"
    #: Every fault really happened.
    NOT_VACUOUS = "I14"

    @property
    def number(self) -> str:
        """Its number in the documentation."""
        return self.value


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation. `order` is `None` when it is not about one order."""

    invariant: Invariant
    order: str | None
    what: str
