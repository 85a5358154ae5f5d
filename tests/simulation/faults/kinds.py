"""Kinds of faults, and the fates of requests that they draw."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.simulation.world.world import Fate, Mishap, Place


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
    #: Messages come late, some beyond their step's complete-by.
    LATE_MESSAGES = "messages late"
    #: Messages die, as if they had been delivered too often.
    DEAD_LETTERS = "messages dead-lettered"
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
    #: Rows lie there that nobody can read.
    BAD_ROWS = "rows damaged"
    #: No host reaches the tables for a few seconds.
    BLIPS = "blips of the tables"
    #: Other versions of the workflows are deployed, host after host.
    VERSIONS = "versions rolled"
    #: Remote services fail, throttle, hang and garble.
    REMOTES = "remote services failing"
    #: Remote services take seconds for many calls.
    REMOTES_SLOW = "remote services slow"
    #: Remote services do it, and do not say so; or do it late.
    REMOTES_SILENT = "remote services silent"
    #: A remote service is down for long.
    REMOTE_DOWN = "remote service down"
    #: Operators act, several at once.
    OPERATORS = "operators"
    #: The undo of a step is refused, now and for ever.
    UNDO_REFUSED = "undo refused"
    #: The queue of callers' notices is gone for a while.
    NOTICES_GONE = "queue of notices gone"


#: What must harm no task: all end as they were drawn, and none is recovered.
MILD = frozenset(
    {
        SimulatedFault.ANSWERS_LOST,
        SimulatedFault.DUPLICATES,
        SimulatedFault.POISON,
        SimulatedFault.TORN_PAGES,
        SimulatedFault.BAD_ROWS,
        SimulatedFault.BLIPS,
        SimulatedFault.VERSIONS,
        SimulatedFault.NOTICES_GONE,
    }
)
#: The part of seeds that have only such faults, or none.
_MILD_PART = 0.25


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What a seed draws: kinds, how often a request is met by one, and when all are over (seconds).

    In one that `is_mild`, what befalls requests befalls those to the tables only.
    """

    kinds: frozenset[SimulatedFault]
    rate: float
    until: float
    is_mild: bool = False

    def has(self, kind: SimulatedFault) -> bool:
        """Tell whether it was drawn."""
        return kind in self.kinds

    @classmethod
    def drawn(cls, seed: int | str, without: Collection[SimulatedFault] = ()) -> FaultPlan:
        """Draw it; what it is to be `without` is drawn, and left out."""
        chance = Random(f"{seed}/faults")
        is_mild = chance.random() < _MILD_PART
        part = chance.choice((0.1, 0.2, 0.4, 0.9))
        kinds = {kind for kind in SimulatedFault if chance.random() < part} or {SimulatedFault.CRASH}
        if is_mild:
            kinds &= MILD
        rate, until = chance.choice((0.005, 0.02, 0.05)), chance.choice((60.0, 150.0, 300.0))
        return cls(frozenset(kinds - set(without)), rate, until, is_mild)


#: Nothing goes wrong.
CALM = FaultPlan(frozenset(), 0.0, 0.0, is_mild=True)


#: What each kind does to a request, and how likely it is by the plan's rate.
_MISHAPS: Mapping[SimulatedFault, tuple[tuple[Mishap, float], ...]] = {
    SimulatedFault.NOT_SENT: ((Mishap.NOT_SENT, 1.0),),
    SimulatedFault.ANSWERS_LOST: ((Mishap.ANSWER_LOST, 1.0),),
    SimulatedFault.BUSY: ((Mishap.BUSY, 1.0),),
    SimulatedFault.CRASH_AT_REQUEST: ((Mishap.CRASH_BEFORE, 0.15), (Mishap.CRASH_AFTER, 0.15)),
}
#: Seconds after which a host finds that it does not reach a service.
_UNREACHABLE_AFTER = 3.0


class FaultyFates:
    """Decides; until it is healed, requests meet the plan's faults.

    What is `down` is not reached: links of a host's name, or `*`, and a place.
    """

    def __init__(self, chance: Random, plan: FaultPlan) -> None:
        self._chance = chance
        self._plan = plan
        self._mishaps = [(kind, *each) for kind in sorted(plan.kinds) for each in _MISHAPS.get(kind, ())]
        self.down: set[tuple[str, Place]] = set()
        self.is_healed = not plan.kinds

    def heal(self) -> None:
        """Let nothing more go wrong."""
        self.is_healed = True
        self.down.clear()

    def of(self, host: str, place: Place, what: str) -> Fate:  # noqa: ARG002 - those of one place are alike
        """Decide what becomes of a request."""
        chance = self._chance
        there, back = chance.uniform(0.0005, 0.02), chance.uniform(0.0005, 0.02)
        if self.is_healed:
            return Fate(there, back)
        if (host, place) in self.down or ("*", place) in self.down:
            return Fate(_UNREACHABLE_AFTER, back, Mishap.NOT_SENT)
        if self._plan.is_mild and place is not Place.TABLES:
            return Fate(there, back)
        slow: SimulatedFault | None = None
        if self._plan.has(SimulatedFault.SLOW) and chance.random() < self._plan.rate:
            there, back, slow = chance.uniform(0.5, 20), chance.uniform(0.5, 20), SimulatedFault.SLOW
        for kind, mishap, weight in self._mishaps:
            if chance.random() < self._plan.rate * weight:
                return Fate(there, back, mishap, kind)
        return Fate(there, back, None, slow)
