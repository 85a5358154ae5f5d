"""The plan of a run: orders and their scenarios, poison messages, and which faults are injected when.

The same seed gives the same plan, but not the same outcome: the platform's processes race.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from random import Random

from functions.pattern.states import Way
from functions.workflows.registration import Registration
from tests.chaos.app.deployment import Deployed
from tests.chaos.plan.drawn_orders import drawn_orders
from tests.chaos.plan.faults import LANES, FaultLane, InjectedFault, Injection
from tests.simulation.drawn.load import DrawnOrder

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
#: One order in so many is held back for faults that affected nothing in the plan's time.
_ONE_SPARE_IN = 5
#: Seconds after the plan's time in which a fault that has affected nothing yet is injected again.
GRACE = 180.0
#: Seconds before a fault, and its length; a frozen part must resume before its clients give up.
_BEFORE = {
    FaultLane.OUTAGES: (0.5, 2.5),
    FaultLane.BROKER: (0.5, 2.0),
    FaultLane.PAYMENTS: (1.0, 4.0),
    FaultLane.PARTITIONS: (1.0, 4.0),
    FaultLane.CLOCKS: (2.0, 6.0),
}
_LENGTH = {
    FaultLane.OUTAGES: (1.0, 5.0),
    FaultLane.BROKER: (1.0, 3.0),
    FaultLane.PAYMENTS: (1.5, 4.0),
    FaultLane.PARTITIONS: (1.0, 6.0),
    FaultLane.CLOCKS: (2.0, 6.0),
}


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
    #: It is of a workflow that was drawn, as is what befalls it.
    DRAWN = "drawn"


@dataclass(frozen=True, slots=True)
class PlannedOrder:
    """One order: submitted `at` so many seconds after the start, and perhaps a second time `again` later.

    It is cancelled `cancelled` seconds after that, if at all. Without `at`, it is held back until a fault
    needs it, or all faults have ended.
    """

    id: str
    at: float | None
    scenario: Scenario
    again: float | None
    cancelled: float | None = None
    drawn: DrawnOrder | None = None

    @property
    def resource(self) -> str:
        """What its workflow's orders are called."""
        return self.drawn.workflow.resource if self.drawn else "orders"

    @property
    def told(self) -> list[str]:
        """The steps of which somebody tells the event."""
        if self.drawn is None:
            return []
        events = [step.name for step in self.drawn.workflow.steps if step.via is Way.EVENT]
        return [name for name in events if name not in self.drawn.untold]


@dataclass(frozen=True, slots=True)
class Poison:
    """A message that is no submission, sent to the queue `at` so many seconds after the start."""

    id: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a seed decides. `seconds` is how long orders are submitted and faults injected.

    `not_run` are faults that cannot be injected on this machine.
    """

    seed: int
    seconds: float
    orders: tuple[PlannedOrder, ...]
    poison: tuple[Poison, ...]
    not_run: frozenset[InjectedFault] = frozenset()

    @property
    def has_drawn(self) -> bool:
        """Whether workflows are drawn."""
        return Scenario.DRAWN in self.scenarios.values()

    @property
    def registrations(self) -> Sequence[Registration]:
        """Workflows in which each step occurs that can be in any version, though not with all its needs."""
        return Deployed(version=2, step=1, seed=self.seed if self.has_drawn else None).registrations

    @property
    def sent_once(self) -> frozenset[str]:
        """The steps that must not be repeated."""
        versions = (version for each in self.registrations for version in each.versions)
        return frozenset(step.name for each in versions for step in each.steps if not step.idempotent)

    @property
    def refused(self) -> Mapping[str, str]:
        """The step that its service refuses, by the id of the drawn order."""
        return {each.id: each.drawn.refused for each in self.orders if each.drawn and each.drawn.refused}

    @property
    def scenarios(self) -> Mapping[str, Scenario]:
        """The scenario of each order, by its id."""
        return {order.id: order.scenario for order in self.orders}

    @property
    def lanes(self) -> list[FaultLane]:
        """The lanes of which something can be injected."""
        return [lane for lane in FaultLane if not self.not_run.issuperset(LANES[lane])]

    def injections(self, lane: FaultLane) -> Iterator[Injection]:
        """Yield a lane's injections without end: each fault once, in random order, then all of them again.

        Every second time, a fault of the hosts affects all of them at once.
        """
        random = _random(self.seed, lane)
        for number in count():
            faults = list(LANES[lane])
            random.shuffle(faults)
            for fault in faults:
                before, lasts = random.uniform(*_BEFORE[lane]), random.uniform(*_LENGTH[lane])
                yield Injection(fault, before, lasts, everywhere=number % 2 == 1)


def make_plan(
    seed: int,
    orders: int,
    seconds: float,
    *,
    drawn: int = 0,
    not_run: frozenset[InjectedFault] = frozenset(),
) -> Plan:
    """Plan a run of `orders` orders, and so many of `drawn` workflows, within `seconds` seconds."""
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
    planned += tuple(
        PlannedOrder(
            each.id, random.uniform(0, seconds), Scenario.DRAWN, None, _soon(each.cancelled), drawn=each
        )
        for each in drawn_orders(seed, drawn)
    )
    return Plan(seed, seconds, planned, _poison(seed, orders, seconds), not_run)


def _soon(cancelled: float | None) -> float | None:
    return None if cancelled is None else min(cancelled, _CANCELLED_WITHIN)


def _cancelled(scenario: Scenario, random: Random) -> float | None:
    return random.uniform(0, _CANCELLED_WITHIN) if scenario is Scenario.CANCELLED else None


def _moment(number: int, orders: int, seconds: float) -> float | None:
    """Spread the orders over the plan's time; hold the spare ones back."""
    usual = _usual(orders)
    return seconds * number / usual if number < usual else None


def _usual(orders: int) -> int:
    return orders - orders // _ONE_SPARE_IN


def faults_of(plan: Plan) -> frozenset[InjectedFault]:
    """Return the faults that must happen in this plan; a small one has no order for every scenario."""
    missing = {
        fault for fault, scenarios in _CAUSED_BY.items() if not scenarios & set(plan.scenarios.values())
    }
    return frozenset(InjectedFault) - missing - plan.not_run


#: Faults that only orders of certain scenarios cause.
_CAUSED_BY = {
    InjectedFault.PAYMENT_REFUSED: {Scenario.REFUSED, Scenario.FIXED, Scenario.UNDONE},
    InjectedFault.PAYMENT_MALFORMED: {Scenario.GARBLED},
    InjectedFault.PAYMENT_AFTER_UNDO: {Scenario.OVERTAKEN},
    InjectedFault.UNDO_FAILING: {Scenario.UNREACHABLE},
    InjectedFault.UNDO_REFUSED: {Scenario.STUCK},
    InjectedFault.ORDER_CANCELLED: {Scenario.CANCELLED},
}


#: What happens only to an order whose payment is called. During the faults, that may never be: it may be
#: given up before. So the last orders that are held back, which come when all faults have ended, have these.
_LAST = (Scenario.REFUSED, Scenario.GARBLED, Scenario.OVERTAKEN)


def _scenarios(orders: int, random: Random) -> list[Scenario]:
    """Spread the scenarios over the orders that are not held back; of those, the last have some again."""
    others = [each for each in Scenario if each not in {Scenario.SMOOTH, Scenario.DRAWN}]
    others += [Scenario.CANCELLED] * (_CANCELLED_FOR_EACH - 1)
    others *= max(1, orders // _ONE_SCENARIO_IN)
    scenarios = [Scenario.SMOOTH] * orders
    usual = _usual(orders)
    places = random.sample(range(usual), min(len(others), usual))
    for place, scenario in zip(places, others, strict=False):
        scenarios[place] = scenario
    return scenarios[: -len(_LAST)] + list(_LAST) if orders - usual > len(_LAST) else scenarios


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
