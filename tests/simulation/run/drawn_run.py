"""A run as its seed draws it, and the evidence that it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

from functions.messages.queues import dead_letter_queue
from functions.pattern.definition import Workflow
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE
from functions.workflows.registration import Registration
from tests.simulation.checks.alerts import posted
from tests.simulation.checks.calls import OrderOfCalls
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.evidence import Evidence, read_body
from tests.simulation.checks.journal import Journal
from tests.simulation.drawn.callers import Callers
from tests.simulation.drawn.load import DrawnOrder, draw_orders
from tests.simulation.drawn.workflows import CHILD, draw_next, draw_workflows, widen
from tests.simulation.faults.adversary import Adversary
from tests.simulation.faults.deployment import Deployment
from tests.simulation.faults.kinds import FaultPlan, FaultyFates, SimulatedFault
from tests.simulation.faults.operators import Operators
from tests.simulation.faults.services import Manners
from tests.simulation.hosts.host import of_chance, of_durable
from tests.simulation.remotes.ledger import RemoteCall
from tests.simulation.remotes.service import Manner
from tests.simulation.run.platform import NOTICES, Platform, SimulatedTimes
from tests.simulation.run.rows import alerts_waiting, births, rows_of_table, task_rows, unfinished, versions
from tests.simulation.world.world import Fates, VirtualLoop, World, defects_in

#: Turns of the loop in which what was cancelled can end.
_LAST_TURNS = 20

type Story[ResultT] = Callable[[Platform], Awaitable[ResultT]]


def simulate[ResultT](
    seed: int | str, fates: Fates, story: Story[ResultT], settings: Mapping[str, str]
) -> tuple[ResultT, World]:
    """Run a story; give its result, and the world in which it took place. Raises `StuckError`."""
    loop = VirtualLoop()
    world = World(seed, loop, fates)
    try:
        return loop.run_until_complete(_tell(world, story, settings)), world
    finally:
        loop.close()


async def _tell[ResultT](world: World, story: Story[ResultT], settings: Mapping[str, str]) -> ResultT:
    platform = Platform(world, settings)
    with ExitStack() as stack:
        stack.enter_context(of_chance(world.chance("application"), world.timestamp))
        stack.enter_context(of_durable(platform.requests.post, platform.requests.delete))
        stack.enter_context(defects_in(world.loop.unhandled))
        try:
            return await story(platform)
        finally:
            await _end(platform)


async def _end(platform: Platform) -> None:
    """End all hosts, and whatever still runs."""
    for host in platform.running.hosts:
        host.on_crash = _nothing
        host.crash()
    for _ in range(_LAST_TURNS):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            break
        for task in left:
            task.cancel()
        await asyncio.sleep(0)


def _nothing() -> None:
    """Start no host again."""


class Gathering:
    """Begin it when the tables are there. Where `clocks_are_right`, none is set, or runs too fast."""

    def __init__(
        self,
        platform: Platform,
        steps: StepsByName,
        operators: Operators,
        robbed: set[str],
        *,
        clocks_are_right: bool,
    ) -> None:
        self._platform = platform
        self._steps = steps
        self._operators = operators
        tasks = platform.tables.tables["Tasks"]
        self._journal = Journal(platform.world, tasks, platform.services.ledger, robbed=robbed)
        self._journal.begin()
        self._calls = OrderOfCalls(tasks, self._steps, clocks_are_right=clocks_are_right)
        platform.services.arrived = self._calls.arrived

    def evidence(
        self, callers: Callers, leftovers: Sequence[str], most_recoveries: int, limits: Mapping[str, int]
    ) -> Evidence:
        """Give the evidence; the `limits` are of calls in flight."""
        platform, tables = self._platform, self._platform.tables
        return Evidence(
            tasks=task_rows(tables),
            births=births(tables),
            versions=versions(tables),
            journal=self._journal.tasks,
            step_changes=self._journal.step_changes,
            children=self._journal.children,
            seen=[*self._journal.torn, *self._calls.violations],
            steps=self._steps,
            ledger=platform.services.ledger,
            only_read=platform.services.readers - {call.agent for call in platform.services.ledger.calls},
            notices=[*map(read_body, self._sent_to(NOTICES))],
            alerts=[posted(body) for body in platform.services.alerts],
            dead_alerts=[*map(read_body, self._dead_of(OPERATOR_ALERTS_QUEUE))],
            buried=self._buried(),
            rejected=list(rows_of_table(tables, "Rejected")),
            accepted=list(callers.accepted),
            refused=callers.refused,
            cancelled=callers.cancelled,
            given=self._operators.given,
            leftovers=[*leftovers, *callers.unanswered],
            most_recoveries=most_recoveries,
            limits=limits,
            most_in_flight=platform.services.most_in_flight,
            unhandled=platform.world.loop.unhandled,
        )

    def _sent_to(self, queue: str) -> list[bytes]:
        """Give the bodies of all messages that came to a queue which nobody takes from, the dead ones too."""
        return [
            *(each.body for each in self._platform.namespace.queues[queue].messages),
            *self._dead_of(queue),
        ]

    def _dead_of(self, queue: str) -> list[bytes]:
        return [each.body for name, each in self._platform.namespace.buried if name == queue and each.subject]

    def _buried(self) -> list[tuple[str, bytes]]:
        """Give the messages that died where somebody looks after them."""
        watched, buried = self._platform.triggers.names, self._platform.namespace.buried
        return [(queue, each.body) for queue, each in buried if dead_letter_queue(queue) in watched]


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
