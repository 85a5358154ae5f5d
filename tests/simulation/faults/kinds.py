"""The kinds of faults, and which of them a seed draws."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class SimulatedFault(StrEnum):
    """One kind; a run has some of them, so that each is also met alone."""

    #: Single requests do not arrive.
    NOT_SENT = "requests not sent"
    #: Single requests are carried out, and their answers lost.
    ANSWERS_LOST = "answers lost"
    #: Services refuse for a moment.
    BUSY = "services busy"
    #: Single requests take seconds.
    SLOW = "requests slow"
    #: A host crashes at a request, before or after it.
    CRASH_AT_REQUEST = "crashes at requests"
    #: A host crashes at any moment.
    CRASH = "crashes"
    #: All hosts crash at the same moment.
    CRASH_OF_ALL = "crash of all hosts"
    #: A host stands still, and then goes on.
    FREEZE = "freezes"
    #: One host does not reach one service.
    PARTITION = "partitions"
    #: No host reaches one service.
    OUTAGE = "outages"
    #: Clocks differ by less than is allowed for.
    SKEW = "skewed clocks"
    #: Clocks differ by more, run at other rates, and are set.
    WILD_CLOCKS = "wild clocks"
    #: Messages are delivered once more.
    DUPLICATES = "duplicate messages"
    #: A lock is lost while its message is processed.
    LOCKS_LOST = "locks lost"
    #: What nobody can read lies on each queue.
    POISON = "poison messages"
    #: Activities run a second time.
    ACTIVITIES_TWICE = "activities run twice"
    #: An orchestration is gone with its history.
    HISTORY_LOST = "histories lost"
    #: An orchestration gets no episode any more.
    STUCK = "instances stuck"
    #: The Supervisor's timer misses its time, or goes off on all hosts.
    TIMERS = "timers missed and doubled"
    #: Queries come in short pages.
    TORN_PAGES = "torn pages"
    #: Index rows are lost.
    INDEX_LOST = "index rows lost"
    #: Remote services fail, throttle, hang and garble.
    REMOTES = "remote services failing"
    #: Remote services do it, and do not say so; or do it late.
    REMOTES_SILENT = "remote services silent"
    #: A remote service is down for long.
    REMOTE_DOWN = "remote service down"
    #: Operators act, several at once.
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What a seed draws: kinds, how often a request is met by one, and when all are over (seconds)."""

    kinds: frozenset[SimulatedFault]
    rate: float
    until: float

    def has(self, kind: SimulatedFault) -> bool:
        """Tell whether it was drawn."""
        return kind in self.kinds

    @classmethod
    def drawn(cls, seed: int | str, without: Collection[SimulatedFault] = ()) -> FaultPlan:
        """Draw it; what it is to be `without` is drawn, and left out."""
        chance = Random(f"{seed}/faults")
        part = chance.choice((0.1, 0.2, 0.4, 0.9))
        kinds = {kind for kind in SimulatedFault if chance.random() < part} or {SimulatedFault.CRASH}
        rate = chance.choice((0.005, 0.02, 0.05))
        return cls(frozenset(kinds - set(without)), rate, chance.choice((60.0, 150.0, 300.0)))


#: Nothing goes wrong.
CALM = FaultPlan(frozenset(), 0.0, 0.0)
