"""Does to hosts and services what the plan says, until everything is healed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from tests.simulation.faults.deployment import Deployment
from tests.simulation.faults.kinds import FaultPlan, FaultyFates, SimulatedFault
from tests.simulation.faults.operators import Operators
from tests.simulation.faults.services import ServiceFaults
from tests.simulation.hosts.host import Host, HostClock
from tests.simulation.run.platform import NOTICES, Platform
from tests.simulation.world.world import Place

#: Seconds between two faults of one kind, and of a host's absence.
_BETWEEN = (3.0, 60.0)
_ABSENT = (0.5, 40.0)
_LONG = (2.0, 90.0)


class Adversary:
    """Begins when the first hosts run."""

    def __init__(
        self,
        platform: Platform,
        plan: FaultPlan,
        fates: FaultyFates,
        deployment: Deployment,
        operators: Operators,
        *,
        hosts: int,
    ) -> None:
        self._platform = platform
        self._world = platform.world
        self._plan = plan
        self._fates = fates
        self._deployment = deployment
        self._operators = operators
        self._chance: Random = platform.world.chance("adversary")
        self._hosts = hosts
        self.services = ServiceFaults(platform)
        self._at_work: list[asyncio.Task[None]] = []

    def start_hosts(self) -> None:
        """Start all hosts; one that crashes is started again after a while."""
        for _ in range(self._hosts):
            self._start_host()

    def begin(self) -> None:
        """Begin with what the plan says."""
        services = self.services
        acts: dict[SimulatedFault, Callable[[], Awaitable[None]]] = {
            SimulatedFault.CRASH: self._crash,
            SimulatedFault.CRASH_OF_ALL: self._crash_all,
            SimulatedFault.FREEZE: self._freeze,
            SimulatedFault.PARTITION: self._partition,
            SimulatedFault.OUTAGE: self._outage,
            SimulatedFault.WILD_CLOCKS: self._set_clock,
            SimulatedFault.DUPLICATES: services.deliver_again,
            SimulatedFault.LOCKS_LOST: services.lose_lock,
            SimulatedFault.POISON: services.poison,
            SimulatedFault.HISTORY_LOST: services.lose_history,
            SimulatedFault.STUCK: services.stick,
            SimulatedFault.INDEX_LOST: services.lose_index_row,
            SimulatedFault.TIMERS: self._double_timers,
            SimulatedFault.DEAD_LETTERS: services.kill_message,
            SimulatedFault.BAD_ROWS: services.damage,
            SimulatedFault.BLIPS: self._blip,
            SimulatedFault.OPERATORS: self._operators.act,
            SimulatedFault.VERSIONS: self._roll,
            SimulatedFault.NOTICES_GONE: self._lose_notices_queue,
        }
        for kind in sorted(self._plan.kinds & acts.keys()):
            self._at_work.append(asyncio.get_running_loop().create_task(self._again_and_again(acts[kind])))
        self._platform.hub.doubled = 0.2 if self._plan.has(SimulatedFault.ACTIVITIES_TWICE) else 0.0
        self._platform.namespace.late = 0.15 if self._plan.has(SimulatedFault.LATE_MESSAGES) else 0.0
        self._platform.tables.on_torn = partial(self._world.met, SimulatedFault.TORN_PAGES)
        self._platform.tables.torn = 0.3 if self._plan.has(SimulatedFault.TORN_PAGES) else 0.0

    async def heal(self) -> None:
        """End all faults: every host runs, reaches everything, and knows the time."""
        for each in self._at_work:
            each.cancel()
        self._fates.heal()
        self._platform.hub.doubled = 0.0
        self._platform.namespace.late = 0.0
        self._platform.namespace.gone.clear()
        self._platform.missed = 0.0
        self._world.tell("adversary", "** heals everything")
        for host in self._platform.running.hosts:
            host.frozen_until = 0.0
            host.clock.set_right()
        while len(self._platform.running.hosts) < self._hosts:
            await asyncio.sleep(1)
        if self._plan.has(SimulatedFault.VERSIONS):
            self._deployment.finish(self._start_host)
        self._platform.tick("full_sweep")

    def _start_host(self) -> None:
        self._deployment.start(self._clock(), self._crashed)

    def _crashed(self) -> None:
        absent = 1.0 if self._fates.is_healed else self._chance.uniform(*_ABSENT)
        self._world.loop.call_later(absent, self._start_host)

    def _clock(self) -> HostClock:
        skew, rate = 0.0, 1.0
        if not self._fates.is_healed and self._plan.has(SimulatedFault.SKEW):
            self._world.met(SimulatedFault.SKEW)
            skew = self._chance.uniform(-2, 2)
        if not self._fates.is_healed and self._plan.has(SimulatedFault.WILD_CLOCKS):
            self._world.met(SimulatedFault.WILD_CLOCKS)
            skew, rate = self._chance.uniform(-90, 90), self._chance.uniform(0.5, 2)
        return HostClock(self._world, skew=skew, rate=rate)

    async def _again_and_again(self, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(*_BETWEEN))
            await act()

    def _any_host(self) -> Host | None:
        return self._platform.running.any("adversary's hosts")

    async def _crash(self) -> None:
        if (host := self._any_host()) is not None:
            self._world.fault(SimulatedFault.CRASH, host.name)
            host.crash()

    async def _crash_all(self) -> None:
        for host in self._platform.running.hosts:
            self._world.fault(SimulatedFault.CRASH_OF_ALL, host.name)
            host.crash()

    async def _freeze(self) -> None:
        if (host := self._any_host()) is not None:
            seconds = self._chance.uniform(*_LONG)
            self._world.fault(SimulatedFault.FREEZE, host.name, f"for {seconds:.1f} s")
            host.frozen_until = self._world.loop.time() + seconds

    async def _partition(self) -> None:
        if (host := self._any_host()) is not None:
            await self._cut(host.name, SimulatedFault.PARTITION)

    async def _outage(self) -> None:
        await self._cut("*", SimulatedFault.OUTAGE)

    async def _roll(self) -> None:
        self._deployment.roll(self._start_host)

    async def _blip(self) -> None:
        await self._cut("*", SimulatedFault.BLIPS, Place.TABLES, self._chance.uniform(0.5, 4))

    async def _cut(
        self, host: str, kind: SimulatedFault, place: Place | None = None, seconds: float | None = None
    ) -> None:
        link = (host, place or self._chance.choice(list(Place)))
        self._world.fault(kind, host, f"to {link[1]}")
        self._fates.down.add(link)
        await asyncio.sleep(self._chance.uniform(*_LONG) if seconds is None else seconds)
        self._fates.down.discard(link)
        self._world.tell(host, f"reaches {link[1]}")

    async def _lose_notices_queue(self) -> None:
        gone = self._platform.namespace.gone
        self._world.tell("adversary", f"deletes {NOTICES}")
        gone.add(NOTICES)
        await asyncio.sleep(self._chance.uniform(*_LONG))
        gone.discard(NOTICES)

    async def _set_clock(self) -> None:
        if (host := self._any_host()) is not None:
            seconds = self._chance.uniform(-60, 60)
            self._world.fault(SimulatedFault.WILD_CLOCKS, host.name, f"set by {seconds:.1f} s")
            host.clock.step(seconds)

    async def _double_timers(self) -> None:
        self._platform.missed = self._chance.choice((0.0, 0.7))
        for host in self._platform.running.hosts:
            self._world.fault(SimulatedFault.TIMERS, host.name)
            for function in ("supervisor", "backlog"):
                host.run(host.call(function, {"timer": None}))
