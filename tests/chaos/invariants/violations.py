"""The invariants by name, and what is reported when one does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Invariant(Enum):
    """An invariant: its number, and the evidence by which it is checked."""

    #: Every order that was answered 202 has its task; every poison message is recorded.
    NO_LOSS = ("I1", "the callers' answers, tables Tasks and Rejected, alerts")
    #: Each step is done at most once and undone at most once.
    ONE_EFFECT = ("I2", "the remote services' ledger")
    #: Each step of a `Processed` task is done; none of a `Compensated` one is.
    NET_EFFECT = ("I3", "the ledger, after late calls have arrived, and table Tasks")
    #: One Scheduler holds a task; epochs never decrease; one of two operators wins.
    MUTUAL_EXCLUSION = ("I4", "table Tasks read again and again, rows of closed epochs, operators' answers")
    #: States follow the transition table; only operators, and cancels, lead out of a final state.
    MONOTONE = ("I5", "table Tasks read again and again, rows of closed epochs")
    #: Nothing is called before its dispatch is recorded, or undone before the task's direction is undo.
    ORDER = ("I6", "the ledger's times against the rows of the task's epochs")
    #: After the last fault, every task is finished, and every queue empty, in bounded time.
    TERMINATION = ("I7", "table Tasks and the broker's queue figures, until the bound")
    #: No call begins after complete-by, no outcome is recorded after it.
    SILENCE_OF_THE_LATE = ("I8", "the ledger's times against the steps' complete-by, in every epoch")
    #: `FailureCount` is the number of recoveries, and never above the limit.
    FAILURE_COUNT = ("I9", "table Tasks, read again and again, against the rows of closed epochs")
    #: No task is ever seen without its order, its steps and its index row.
    ATOMIC_BIRTH = ("I10", "table Tasks read again and again, and once at the end")
    #: Callers get a notice of everything that happened, and none after the end.
    STATUS_AGREES = ("I11", "queue notices-demo against the task's history, in the order of time")
    #: The operator gets an alert of each `Error`, and of each task that the Supervisor gave up.
    ALERTS = ("I12", "what was posted to the alert webhook against the task's history")
    #: What a caller cancelled is undone, once.
    CANCELLED = ("I15", "the callers' answers, table Tasks, rows of closed epochs")
    #: What concerns others, or nobody, costs a task nothing: it ends as it would have, without a recovery.
    UNHARMED = (
        "I16",
        "how tasks end, and their recoveries, where nothing should harm them",
    )
    #: A service has no more calls in flight than its limit allows, over all hosts.
    LIMIT = ("I17", "the calls in flight at each service")
    #: Every fault really happened.
    NOT_VACUOUS = ("I14", "counts of faults that affected something")

    def __init__(self, number: str, evidence: str) -> None:
        self.number = number
        self.evidence = evidence


#: What only the simulation checks.
SIMULATED = frozenset({Invariant.UNHARMED, Invariant.LIMIT})


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation. `order` is `None` when it is not about one order."""

    invariant: Invariant
    order: str | None
    what: str
