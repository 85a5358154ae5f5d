"""One run of a seed: what is drawn takes place, until all is at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from functions.workflows.registration import Registration
from tests.simulation.checks.evidence import SimulatedEvidence
from tests.simulation.drawn.callers import Callers
from tests.simulation.drawn.load import DrawnOrder, draw_orders
from tests.simulation.drawn.workflows import draw_workflows
from tests.simulation.faults.adversary import Adversary
from tests.simulation.faults.fates import FaultyFates
from tests.simulation.faults.kinds import FaultPlan
from tests.simulation.faults.remotes import Manners
from tests.simulation.remotes.ledger import RemoteCall
from tests.simulation.remotes.service import Manner
from tests.simulation.run.gathering import NOTICES, Gathering
from tests.simulation.run.platform import Platform
from tests.simulation.run.rows import unfinished
from tests.simulation.run.settings import SimulatedTimes

#: Seconds between looks whether all is at rest.
_LOOK_EVERY = 5.0
#: Seconds of the longest wait that is drawn: of a step that is a task.
_LONGEST_WAIT = 3_600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a seed draws."""

    registrations: tuple[Registration, ...]
    orders: tuple[DrawnOrder, ...]
    times: SimulatedTimes
    hosts: int

    @classmethod
    def drawn(cls, seed: int | str) -> Scenario:
        """Draw it."""
        chance = Random(f"{seed}/scenario")
        registrations = draw_workflows(chance)
        orders = draw_orders(chance, registrations)
        return cls(registrations, orders, SimulatedTimes.drawn(chance), chance.choice((1, 2, 2, 3)))

    @property
    def bound(self) -> float:
        """Bound the time until all is at rest, from the last order and the last fault on."""
        steps = max(len(each.workflow.steps) for each in self.registrations)
        return _LONGEST_WAIT + 2 * self.times.termination(steps, 60)


async def take_place(
    scenario: Scenario,
    plan: FaultPlan,
    fates: FaultyFates,
    platform: Platform,
    manner: Callable[[RemoteCall], Manner] | None = None,
) -> SimulatedEvidence:
    """Have it take place: faults, then all is healed, then everything has to come to rest in time.

    How services answer is drawn, unless a `manner` is given.
    """
    steps = (step for each in scenario.registrations for step in each.workflow.steps)
    platform.services.ledger.plain |= {step.name for step in steps if not step.idempotent}
    manners = Manners(platform.world.chance("manners"), plan, fates, scenario.orders)
    platform.services.manner = manner or manners.of
    adversary = Adversary(platform, plan, fates, scenario.registrations, scenario.hosts)
    adversary.start_hosts()
    gathering = Gathering(platform, scenario.registrations, adversary.services.robbed)
    platform.every(scenario.times.sweep, "supervisor")
    callers = Callers(platform)
    callers.begin(scenario.orders)
    if plan.kinds:
        adversary.begin()
        await asyncio.sleep(plan.until)
        await adversary.heal()
    leftovers = await rest(platform, callers, scenario.bound)
    return gathering.evidence(callers, leftovers, scenario.times.most_recoveries)


async def rest(platform: Platform, callers: Callers, bound: float) -> list[str]:
    """Wait until all is at rest, at most so many seconds; tell what is not."""
    async with asyncio.timeout(bound + 2 * _LOOK_EVERY):
        for _ in range(int(bound / _LOOK_EVERY)):
            await asyncio.sleep(_LOOK_EVERY)
            if callers.are_done and not any(True for _ in _leftovers(platform)):
                return []
    return list(_leftovers(platform))


def _leftovers(platform: Platform) -> Sequence[str]:
    queues = [
        f"queue {queue.name} holds {len(queue.messages)} messages"
        for queue in platform.namespace.queues.values()
        if queue.messages and queue.name != NOTICES
    ]
    return [*unfinished(platform.tables), *queues]
