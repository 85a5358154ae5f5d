"""One run of a seed: what is drawn takes place, until all is at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from functions.pattern.definition import Workflow
from functions.workflows.registration import Registration
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.evidence import Evidence
from tests.simulation.drawn.callers import Callers
from tests.simulation.drawn.load import DrawnOrder, draw_orders
from tests.simulation.drawn.workflows import CHILD, draw_next, draw_workflows, widen
from tests.simulation.faults.adversary import Adversary
from tests.simulation.faults.deployment import Deployment
from tests.simulation.faults.fates import FaultyFates
from tests.simulation.faults.kinds import FaultPlan, SimulatedFault
from tests.simulation.faults.operators import Operators
from tests.simulation.faults.remotes import Manners
from tests.simulation.remotes.ledger import RemoteCall
from tests.simulation.remotes.service import Manner
from tests.simulation.run.gathering import Gathering
from tests.simulation.run.platform import NOTICES, Platform
from tests.simulation.run.rows import alerts_waiting, unfinished
from tests.simulation.run.settings import SimulatedTimes

#: Seconds between looks whether all is at rest.
_LOOK_EVERY = 5.0
#: Seconds between runs of housekeeping, which finds nothing that is past its time, and of the backlog's.
_HOUSEKEEPING_EVERY = 90.0
_BACKLOG_EVERY = 30.0
#: Seconds of the longest wait that is drawn: of a step that is a task.
_LONGEST_WAIT = 3_600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a seed draws."""

    registrations: tuple[Registration, ...]
    #: What is deployed instead, host after host, where versions are rolled.
    following: tuple[Registration, ...]
    orders: tuple[DrawnOrder, ...]
    times: SimulatedTimes
    hosts: int

    @classmethod
    def drawn(cls, seed: int | str) -> Scenario:
        """Draw it."""
        chance = Random(f"{seed}/scenario")
        registrations = widen(Random(f"{seed}/layers"), draw_workflows(chance))
        orders = draw_orders(chance, registrations)
        following = draw_next(Random(f"{seed}/next"), registrations)
        return cls(
            registrations, following, orders, SimulatedTimes.drawn(chance), chance.choice((1, 2, 2, 3))
        )

    @property
    def child(self) -> Workflow:
        """Give the workflow of the tasks that are steps."""
        return next(each.workflow for each in self.registrations if each.workflow.name == CHILD)

    @property
    def bound(self) -> float:
        """Bound the time until all is at rest, from the last order and the last fault on."""
        steps = max(len(version.steps) for each in self.following for version in each.versions)
        return _LONGEST_WAIT + 2 * self.times.termination(steps, 60)


async def take_place(
    scenario: Scenario,
    plan: FaultPlan,
    fates: FaultyFates,
    platform: Platform,
    manner: Callable[[RemoteCall], Manner] | None = None,
) -> Evidence:
    """Have it take place: faults, then all is healed, then everything has to come to rest in time.

    How services answer is drawn, unless a `manner` is given.
    """
    steps = (step for each in scenario.following for version in each.versions for step in version.steps)
    platform.services.ledger.plain |= {step.name for step in steps if not step.idempotent}
    manners = Manners(platform.world, plan, fates, scenario.orders)
    platform.services.manner = manner or manners.of
    steps_by_name = StepsByName(scenario.following)
    deployment = Deployment(platform, scenario.registrations, scenario.following)
    operators = Operators(platform, steps_by_name)
    adversary = Adversary(platform, plan, fates, deployment, operators, hosts=scenario.hosts)
    adversary.start_hosts()
    is_right = not plan.has(SimulatedFault.WILD_CLOCKS)
    robbed = adversary.services.robbed
    gathering = Gathering(platform, steps_by_name, operators, robbed, clocks_are_right=is_right)
    platform.every(scenario.times.sweep, "supervisor")
    platform.every(_HOUSEKEEPING_EVERY, "housekeeping")
    platform.every(_HOUSEKEEPING_EVERY, "old_rows")
    platform.every(_BACKLOG_EVERY, "backlog")
    callers = Callers(platform)
    callers.begin(scenario.orders)
    if plan.kinds:
        adversary.begin()
        await asyncio.sleep(plan.until)
        await adversary.heal()
    leftovers = await rest(platform, callers, operators, scenario.bound)
    limits = scenario.times.limits if is_right else {}
    return gathering.evidence(callers, leftovers, scenario.times.most_recoveries, limits)


async def rest(platform: Platform, callers: Callers, operators: Operators, bound: float) -> list[str]:
    """Wait until all is at rest, and no late call can arrive, at most so many seconds; tell what is not.

    What operators have parked, perhaps by a request that took its time, goes on.
    """
    async with asyncio.timeout(bound + 2 * _LOOK_EVERY):
        for _ in range(int(bound / _LOOK_EVERY)):
            await asyncio.sleep(_LOOK_EVERY)
            await operators.unpark_all()
            is_late = any(call.is_open and call.is_late for call in platform.services.ledger.calls)
            if callers.are_done and not is_late and not any(True for _ in _leftovers(platform)):
                return []
    return list(_leftovers(platform))


def _leftovers(platform: Platform) -> Sequence[str]:
    queues = [
        f"queue {queue.name} holds {len(queue.messages)} messages"
        for queue in platform.namespace.queues.values()
        if queue.messages and queue.name != NOTICES
    ]
    waiting = alerts_waiting(platform.tables)
    alerts = [f"{waiting} alerts wait for their summary"] if waiting else []
    return [*unfinished(platform.tables), *queues, *alerts]
