"""The plan of a run: its orders, its faults in their order, and the application's time limits.

The same seed makes the same plan. The processes race, so the outcome can differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, cycle, islice
from random import Random

#: One order in five is held back for faults that had no effect in the plan's time.
_ONE_SPARE_IN = 5
#: Seconds in which the cancel of an order follows its submission.
_CANCELLED_WITHIN = 8.0
#: Seconds before a fault, and its length; a paused part resumes before its clients time out.
_BEFORE, _LASTS = (0.5, 2.5), (1.0, 5.0)


class InjectedFault(StrEnum):
    """Each fault must have an effect in a run; otherwise the run proves nothing about it."""

    #: `kill -9` of a Functions host, which starts again after some seconds.
    HOST_KILLED = "host killed"
    #: SIGSTOP of a host for some seconds, as a long garbage collection would.
    HOST_PAUSED = "host paused"
    #: `kill -9` of the broker, which starts again after some seconds.
    BROKER_KILLED = "broker killed"
    BROKER_PAUSED = "broker paused"
    #: SIGSTOP of Azurite. A kill would lose data that Azurite has accepted and not saved.
    AZURITE_PAUSED = "azurite paused"
    CUT_FROM_TABLES = "host without tables"
    CUT_FROM_BUS = "host without broker"
    CUT_FROM_SERVICES = "host without services"


class FaultLane(StrEnum):
    """Faults of one lane follow each other; faults of different lanes overlap."""

    #: Kills and pauses of the platform's parts: a part that starts needs the others.
    PARTS = "parts"
    PARTITIONS = "partitions"


LANES: Mapping[FaultLane, Sequence[InjectedFault]] = {
    FaultLane.PARTS: list(InjectedFault)[:5],
    FaultLane.PARTITIONS: list(InjectedFault)[5:],
}


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault, which begins after a pause of `before` seconds and `lasts` for some seconds.

    With `everywhere`, it affects all hosts at the same time.
    """

    fault: InjectedFault
    before: float
    lasts: float
    everywhere: bool = False


class Scenario(StrEnum):
    """The course of one order, apart from the faults."""

    #: Each service does its step.
    SMOOTH = "smooth"
    #: A service refuses a step: an order ends in `Error`, a delivery is undone.
    REFUSED = "refused"
    #: The caller cancels it; the services undo their completed steps.
    CANCELLED = "cancelled"


#: The step that a service refuses, by resource.
_REFUSED_STEP = {"orders": "payment", "deliveries": "drone"}
#: The resource and scenario of every eight orders in a row.
_EIGHT = (
    ("orders", Scenario.SMOOTH),
    ("orders", Scenario.REFUSED),
    ("deliveries", Scenario.SMOOTH),
    ("orders", Scenario.CANCELLED),
    ("orders", Scenario.SMOOTH),
    ("deliveries", Scenario.CANCELLED),
    ("orders", Scenario.SMOOTH),
    ("deliveries", Scenario.REFUSED),
)


@dataclass(frozen=True, slots=True)
class PlannedOrder:
    """One order, submitted `at` seconds after the start, and cancelled `cancelled` seconds later.

    An order without `at` is held back until a fault needs it, or all faults have ended.
    """

    id: str
    resource: str
    scenario: Scenario
    at: float | None
    cancelled: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The drawn plan. Orders are submitted and faults are injected for `seconds`."""

    seed: int
    seconds: float
    orders: Sequence[PlannedOrder]

    @property
    def refused(self) -> Mapping[str, str]:
        """The step that its service refuses, by the id of the order."""
        refused = (each for each in self.orders if each.scenario is Scenario.REFUSED)
        return {each.id: _REFUSED_STEP[each.resource] for each in refused}

    def injections(self, lane: FaultLane) -> Iterator[Injection]:
        """Yield the injections of a lane without end: each fault once in random order, then all again.

        Every second time, a fault affects all hosts at the same time.
        """
        random = _random(self.seed, lane)
        for number in count():
            for fault in random.sample(LANES[lane], len(LANES[lane])):
                before, lasts = random.uniform(*_BEFORE), random.uniform(*_LASTS)
                yield Injection(fault, before, lasts, everywhere=number % 2 == 1)


def make_plan(seed: int, orders: int, seconds: float) -> Plan:
    """Draw a run of `orders` orders within `seconds` seconds."""
    random, usual = _random(seed, "orders"), orders - orders // _ONE_SPARE_IN
    drawn = list(islice(cycle(_EIGHT), usual))
    random.shuffle(drawn)
    drawn += [_EIGHT[0]] * (orders - usual)
    planned = [
        PlannedOrder(
            id=f"chaos-{seed}-{number:04d}",
            resource=resource,
            scenario=scenario,
            at=seconds * number / usual if number < usual else None,
            cancelled=random.uniform(0, _CANCELLED_WITHIN) if scenario is Scenario.CANCELLED else None,
        )
        for number, (resource, scenario) in enumerate(drawn)
    ]
    return Plan(seed, seconds, planned)


def _random(seed: int, part: str) -> Random:
    """Return a generator for one part of the plan: a change of one part leaves the others as they are."""
    return Random(f"{seed}/{part}")  # noqa: S311 - not for security


@dataclass(frozen=True, slots=True)
class Limits:
    """The application's time limits in seconds: short, so that a run has many recoveries."""

    step: int = 4
    #: The step of an Agent behind a queue, with the time of its request in the queue.
    queue_step: int = 8
    pick_up: int = 6
    sweep: int = 2
    threshold: int = 3
    extended_waits: tuple[int, ...] = (2, 4, 8)
    skew: int = 1
    circuit_open: int = 2
    #: The lock of a message whose receiver was killed (`infra/queues.json`).
    message_lock: int = 60
    #: The age at which the Supervisor sends a message again.
    message_age: int = 10
    #: The longest deferral of a step behind a closed gate, and the longest opening of a circuit.
    deferral: int = 60
    longest_opening: int = 30

    @property
    def settings(self) -> Mapping[str, str]:
        """The application settings of these limits."""
        delivery = ("account", "package", "transport", "drone", "delivery")
        steps = {f"delivery.{step}": self.step for step in delivery} | {"orders.payment": self.queue_step}
        return {
            "STEP_SECONDS": ",".join(f"{step}={seconds}" for step, seconds in steps.items()),
            "PICK_UP_SECONDS": str(self.pick_up),
            "SUPERVISOR_SCHEDULE": f"*/{self.sweep} * * * * *",
            "SUPERVISOR_THRESHOLD": str(self.threshold),
            "EXTENDED_WAITS": ",".join(map(str, self.extended_waits)),
            "SKEW_SECONDS": str(self.skew),
            "BREAKER_OPEN_SECONDS": str(self.circuit_open),
            "DEFER_HOURS": str(self.deferral / 3600),
            "ALERTS_PER_MINUTE": "10000",  # no alert waits for a summary
        }

    @property
    def most_recoveries(self) -> int:
        """The limit of recoveries of a task in one direction."""
        return self.threshold + len(self.extended_waits)

    @property
    def termination(self) -> float:
        """The bound from the last fault until each task is finished.

        An attempt takes its time limit, the skew and a sweep. A task has `most_recoveries` + 1 attempts to do
        and as many to undo, each with up to four further steps that succeed. Before that, a message may wait
        for the lock of a killed receiver, and a step behind a gate that is released after the longest
        opening; after it, a message may wait for the Supervisor. An extended wait is up to a quarter longer.
        """
        attempt = max(self.queue_step, self.pick_up) + self.skew + self.sweep
        direction = (self.most_recoveries + 1) * attempt + 4 * attempt + sum(self.extended_waits) * 5 / 4
        gates = self.deferral + self.longest_opening
        return 2 * direction + self.message_lock + self.message_age + self.sweep + gates
