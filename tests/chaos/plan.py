"""What will happen in a run, as its seed says: which orders, with what fate, and which faults when.

The plan is the same for the same seed; what comes of it is not, for the platform's processes race.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.chaos.faults import LANES, Fault, FaultKind, Lane

#: One order in so many has each of the fates that are not smooth; each occurs at least once.
_ONE_FATE_IN = 40
_ONE_TWICE_IN = 8
_ONE_POISON_IN = 40
_FEWEST_POISON = 3
#: Seconds in which the second submission of an order follows the first.
_AGAIN_WITHIN = 5.0
#: One order in so many is held back for the faults that have met nobody when the plan's time is over.
_ONE_SPARE_IN = 5
#: Seconds beyond the plan's in which a fault that has met nobody yet is tried again.
GRACE = 60.0
#: Seconds of quiet before a fault, and its length; a pause must be shorter than a test's patience.
_QUIET = {Lane.OUTAGES: (0.5, 2.5), Lane.BROKER: (0.5, 2.0), Lane.PAYMENTS: (1.0, 4.0)}
_LENGTH = {Lane.OUTAGES: (1.0, 5.0), Lane.BROKER: (1.0, 3.0), Lane.PAYMENTS: (1.5, 4.0)}


class Fate(StrEnum):
    """What befalls one order, beside what befalls all."""

    #: Nothing of its own.
    SMOOTH = "smooth"
    #: Its payment is refused for good; it stays in `Error`.
    REFUSED = "refused"
    #: Its payment is refused until an operator has that mended, and resubmits it.
    MENDED = "mended"
    #: Its payment is refused, and an operator has it undone.
    WITHDRAWN = "withdrawn"
    #: Its payment is made, but the answer is nonsense; an operator resubmits it.
    MISHEARD = "misheard"
    #: No payment is ever made; its undo fails twice, then works.
    UNREACHABLE = "unreachable"
    #: Its payment is made only after its undo, which must then keep it from being made.
    BELATED = "belated"
    #: No payment is ever made, and its undo is refused for good.
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class PlannedOrder:
    """One order: submitted `at` so many seconds from the start, and perhaps `again` so much later.

    When all faults are over, it is submitted at once.
    """

    id: str
    at: float
    fate: Fate
    again: float | None


@dataclass(frozen=True, slots=True)
class Poison:
    """A message that is no submission, put on the queue `at` so many seconds from the start."""

    id: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a seed decides. `seconds` is how long orders and faults come."""

    seed: int
    seconds: float
    orders: tuple[PlannedOrder, ...]
    poison: tuple[Poison, ...]

    @property
    def fates(self) -> Mapping[str, Fate]:
        """Each order's fate, by its id."""
        return {order.id: order.fate for order in self.orders}

    def faults(self, lane: Lane) -> Iterator[Fault]:
        """Give a lane's faults, for ever: each kind once, in some order, then all of them again."""
        random = _random(self.seed, lane)
        while True:
            kinds = list(LANES[lane])
            random.shuffle(kinds)
            for kind in kinds:
                yield Fault(kind, random.uniform(*_QUIET[lane]), random.uniform(*_LENGTH[lane]))


def make_plan(seed: int, orders: int, seconds: float) -> Plan:
    """Decide what happens to `orders` orders within `seconds` seconds."""
    random = _random(seed, "orders")
    fates = _fates(orders, random)
    planned = tuple(
        PlannedOrder(
            id=f"chaos-{seed}-{number:04d}",
            at=_moment(number, orders, seconds),
            fate=fates[number],
            again=random.uniform(0, _AGAIN_WITHIN) if number % _ONE_TWICE_IN == 0 else None,
        )
        for number in range(orders)
    )
    return Plan(seed, seconds, planned, _poison(seed, orders, seconds))


def _moment(number: int, orders: int, seconds: float) -> float:
    """Spread the orders over the plan's time, and the spare ones over the grace."""
    spare = orders // _ONE_SPARE_IN
    usual = orders - spare
    return seconds * number / usual if number < usual else seconds + GRACE * (number - usual) / spare


def kinds_of(plan: Plan) -> frozenset[FaultKind]:
    """Name the faults that this plan must bring about; a small one has no order for every fate."""
    missing = {kind for kind, fates in _BROUGHT_BY.items() if not fates & set(plan.fates.values())}
    return frozenset(FaultKind) - missing


#: Faults that only orders of certain fates meet.
_BROUGHT_BY = {
    FaultKind.PAYMENT_REFUSED: {Fate.REFUSED, Fate.MENDED, Fate.WITHDRAWN},
    FaultKind.PAYMENT_MALFORMED: {Fate.MISHEARD},
    FaultKind.PAYMENT_BELATED: {Fate.BELATED},
    FaultKind.UNDO_FAILING: {Fate.UNREACHABLE},
    FaultKind.UNDO_REFUSED: {Fate.STUCK},
}


def _fates(orders: int, random: Random) -> list[Fate]:
    """Spread the fates over the orders, but not over the last ones: their faults need time."""
    harsh = [fate for fate in Fate if fate is not Fate.SMOOTH] * max(1, orders // _ONE_FATE_IN)
    fates = [Fate.SMOOTH] * orders
    places = random.sample(range(orders), min(len(harsh), orders))
    for place, fate in zip(places, harsh, strict=False):
        fates[place] = fate
    return fates


def _poison(seed: int, orders: int, seconds: float) -> tuple[Poison, ...]:
    random = _random(seed, "poison")
    bodies = (b"{", b"\xff\x00", b'{"schema_version": 7}', b"[]", b'"text"')
    return tuple(
        Poison(f"poison-{seed}-{number}", random.uniform(0, seconds), random.choice(bodies))
        for number in range(max(_FEWEST_POISON, orders // _ONE_POISON_IN))
    )


def _random(seed: int, what: str) -> Random:
    """Give each part of the plan a chance of its own, so that a change of one leaves the others."""
    return Random(f"{seed}/{what}")  # noqa: S311 - chance, no secret
