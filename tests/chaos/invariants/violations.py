"""The invariants by name, and what is told when one does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Invariant(Enum):
    """An invariant: its number, and the evidence by which it is checked."""

    #: Every order that was answered 202 has its task; every poison message is recorded.
    NO_LOSS = ("I1", "the callers' answers, tables Tasks and Rejected, alerts")
    #: A payment is made at most once and undone at most once.
    ONE_EFFECT = ("I2", "the payment service's ledger")
    #: `Processed` tasks are paid; of `Compensated` ones nothing stands.
    NET_EFFECT = ("I3", "the ledger, after late calls have arrived, and table Tasks")
    #: One Scheduler holds a task; epochs never decrease; one of two operators wins.
    MUTUAL_EXCLUSION = ("I4", "looks at table Tasks every second, rows of closed epochs, operators' answers")
    #: States go where the transition table leads, and only operators take a task out of an end.
    MONOTONE = ("I5", "looks at table Tasks every second, rows of closed epochs")
    #: Nothing is called before it is recorded as dispatched, nothing undone before the task turned back.
    ORDER = ("I6", "the ledger's times against the rows of the task's epochs")
    #: Once the faults stop, every order's task reaches its end, and every queue empties, in bounded time.
    TERMINATION = ("I7", "table Tasks and the broker's figures, looked at until the bound")
    #: No call begins after complete-by, no outcome is recorded after it.
    SILENCE_OF_THE_LATE = ("I8", "the ledger's times against the steps' complete-by, in every epoch")
    #: `FailureCount` is the number of recoveries, and never above the limit.
    FAILURE_COUNT = ("I9", "table Tasks against the rows of closed epochs, looks every second")
    #: No task is ever seen without its order, its steps and its index row.
    ATOMIC_BIRTH = ("I10", "looks at table Tasks every second, and the table at the end")
    #: Callers are told what happened, all of it, and nothing after the end.
    STATUS_AGREES = ("I11", "queue notices-demo, drained, against the task's history; ordered by their times")
    #: Each entry into `Error`, and each giving up, is told to the operator.
    ALERTS = ("I12", "what was posted to the alert webhook against the task's history")
    #: Every kind of fault really happened.
    NOT_VACUOUS = ("I14", "counts of faults that met something")

    def __init__(self, number: str, evidence: str) -> None:
        self.number = number
        self.evidence = evidence


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that should not be. `order` is None when it is not about one order."""

    invariant: Invariant
    order: str | None
    what: str
