"""The plan of a run: orders and their scenarios, poison messages, and which faults are injected when.

The same seed gives the same plan, but not the same outcome: the platform's processes race.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.chaos.plan.faults import LANES, FaultLane, InjectedFault, Injection

#: One order in so many has each of the scenarios other than `SMOOTH`; each occurs at least once.
_ONE_SCENARIO_IN = 40
#: What becomes of a cancel depends on its moment, so there are three times as many.
_CANCELLED_FOR_EACH = 3
_ONE_TWICE_IN = 8
_ONE_POISON_IN = 40
_FEWEST_POISON = 3
#: Seconds in which the second submission of an order follows the first.
_AGAIN_WITHIN = 5.0
#: Seconds in which the cancel of an order follows its submission.
_CANCELLED_WITHIN = 8.0
#: One order in so many is held back for faults that have affected nothing when the plan's time is over.
_ONE_SPARE_IN = 5
#: Seconds after the plan's time in which a fault that has affected nothing yet is injected again.
GRACE = 60.0
#: Seconds before a fault, and its length; a frozen part must resume before its clients give up.
_BEFORE = {FaultLane.OUTAGES: (0.5, 2.5), FaultLane.BROKER: (0.5, 2.0), FaultLane.PAYMENTS: (1.0, 4.0)}
_LENGTH = {FaultLane.OUTAGES: (1.0, 5.0), FaultLane.BROKER: (1.0, 3.0), FaultLane.PAYMENTS: (1.5, 4.0)}


class Scenario(StrEnum):
    """What happens to one order, beside the faults that affect all."""

    #: Nothing in particular.
    SMOOTH = "smooth"
    #: Its payment is refused for good; it stays in `Error`.
    REFUSED = "refused"
    #: Its payment is refused until an operator has fixed the cause, and resubmits it.
    FIXED = "fixed"
    #: Its payment is refused, and an operator has it undone.
    UNDONE = "undone"
    #: Its payment is made, but the answer cannot be read; an operator gives its result.
    GARBLED = "garbled"
    #: No payment is ever made; its undo fails twice, then works.
    UNREACHABLE = "unreachable"
    #: Its payment is carried out only after its undo, which must then prevent it.
    OVERTAKEN = "overtaken"
    #: No payment is ever made, and its undo is refused for good.
    STUCK = "stuck"
    #: Its caller cancels it, under way or processed.
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class PlannedOrder:
    """One order: submitted `at` so many seconds after the start, and perhaps a second time `again` later.

    It is cancelled `cancelled` seconds after that, if at all. When all faults have ended, it is submitted at
    once.
    """

    id: str
    at: float
    scenario: Scenario
    again: float | None
    cancelled: float | None = None


@dataclass(frozen=True, slots=True)
class Poison:
    """A message that is no submission, sent to the queue `at` so many seconds after the start."""

    id: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a seed decides. `seconds` is how long orders are submitted and faults injected."""

    seed: int
    seconds: float
    orders: tuple[PlannedOrder, ...]
    poison: tuple[Poison, ...]

    @property
    def scenarios(self) -> Mapping[str, Scenario]:
        """The scenario of each order, by its id."""
        return {order.id: order.scenario for order in self.orders}

    def injections(self, lane: FaultLane) -> Iterator[Injection]:
        """Yield a lane's injections without end: each fault once, in random order, then all of them again."""
        random = _random(self.seed, lane)
        while True:
            faults = list(LANES[lane])
            random.shuffle(faults)
            for fault in faults:
                yield Injection(fault, random.uniform(*_BEFORE[lane]), random.uniform(*_LENGTH[lane]))


def make_plan(seed: int, orders: int, seconds: float) -> Plan:
    """Plan a run of `orders` orders within `seconds` seconds."""
    random, cancels = _random(seed, "orders"), _random(seed, "cancels")
    scenarios = _scenarios(orders, random)
    planned = tuple(
        PlannedOrder(
            id=f"chaos-{seed}-{number:04d}",
            at=_moment(number, orders, seconds),
            scenario=scenarios[number],
            again=random.uniform(0, _AGAIN_WITHIN) if number % _ONE_TWICE_IN == 0 else None,
            cancelled=_cancelled(scenarios[number], cancels),
        )
        for number in range(orders)
    )
    return Plan(seed, seconds, planned, _poison(seed, orders, seconds))


def _cancelled(scenario: Scenario, random: Random) -> float | None:
    return random.uniform(0, _CANCELLED_WITHIN) if scenario is Scenario.CANCELLED else None


def _moment(number: int, orders: int, seconds: float) -> float:
    """Spread the orders over the plan's time, and the spare ones over the grace period."""
    spare = orders // _ONE_SPARE_IN
    usual = orders - spare
    return seconds * number / usual if number < usual else seconds + GRACE * (number - usual) / spare


def faults_of(plan: Plan) -> frozenset[InjectedFault]:
    """Return the faults that must happen in this plan; a small one has no order for every scenario."""
    missing = {
        fault for fault, scenarios in _CAUSED_BY.items() if not scenarios & set(plan.scenarios.values())
    }
    return frozenset(InjectedFault) - missing


#: Faults that only orders of certain scenarios cause.
_CAUSED_BY = {
    InjectedFault.PAYMENT_REFUSED: {Scenario.REFUSED, Scenario.FIXED, Scenario.UNDONE},
    InjectedFault.PAYMENT_MALFORMED: {Scenario.GARBLED},
    InjectedFault.PAYMENT_AFTER_UNDO: {Scenario.OVERTAKEN},
    InjectedFault.UNDO_FAILING: {Scenario.UNREACHABLE},
    InjectedFault.UNDO_REFUSED: {Scenario.STUCK},
    InjectedFault.ORDER_CANCELLED: {Scenario.CANCELLED},
}


def _scenarios(orders: int, random: Random) -> list[Scenario]:
    """Spread the scenarios over the orders."""
    others = [scenario for scenario in Scenario if scenario is not Scenario.SMOOTH]
    others += [Scenario.CANCELLED] * (_CANCELLED_FOR_EACH - 1)
    others *= max(1, orders // _ONE_SCENARIO_IN)
    scenarios = [Scenario.SMOOTH] * orders
    places = random.sample(range(orders), min(len(others), orders))
    for place, scenario in zip(places, others, strict=False):
        scenarios[place] = scenario
    return scenarios


def _poison(seed: int, orders: int, seconds: float) -> tuple[Poison, ...]:
    random = _random(seed, "poison")
    bodies = (b"{", b"\xff\x00", b'{"schema_version": 7}', b"[]", b'"text"')
    return tuple(
        Poison(f"poison-{seed}-{number}", random.uniform(0, seconds), random.choice(bodies))
        for number in range(max(_FEWEST_POISON, orders // _ONE_POISON_IN))
    )


def _random(seed: int, what: str) -> Random:
    """Return a generator for one part of the plan, so that a change of it does not change the others."""
    return Random(f"{seed}/{what}")  # noqa: S311 - not for security
