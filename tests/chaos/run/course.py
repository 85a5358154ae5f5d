"""The course of a run: everything in the plan happens, the platform settles, the evidence is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence

from tests.chaos.callers import Callers
from tests.chaos.evidence.judge import Judge, Outcome
from tests.chaos.evidence.settling import settle
from tests.chaos.evidence.tables import Tables
from tests.chaos.injection.lanes import Injector, run_lane
from tests.chaos.plan import FaultLane, InjectedFault, Limits, Plan
from tests.chaos.run.environment import RunEnvironment
from tests.chaos.run.progress import RunProgress

#: Seconds in which late requests arrive after everything has settled.
_LATE_CALLS = 8.0
#: Seconds between two looks at all tasks, and the pause in lengths of a look: more looks slow down.
_LOOK_EVERY, _PAUSE = 1.0, 3
_MOST_LOOKS_AT_THE_END = 30


class ChaosRun:
    """Carries out a plan in an environment that runs."""

    def __init__(self, plan: Plan, limits: Limits, environment: RunEnvironment) -> None:
        self._plan = plan
        self._limits = limits
        self._addresses = environment.platform.addresses
        self._remotes = environment.remotes
        self._injector = Injector(environment.hosts)
        self._callers = Callers([each.platform.addresses.host for each in environment.hosts], plan.orders)
        self.judge = Judge(
            self._remotes.effects, self._remotes.posted, most_recoveries=limits.most_recoveries
        )
        self._counts = Counter[InjectedFault]()

    async def carry_out(self, progress: RunProgress) -> Outcome:
        """Carry out the plan, and let the judge see the end. Raises `PartFailedError`."""
        try:
            async with Tables.at(self._addresses.storage_connection) as tables, asyncio.TaskGroup() as group:
                background = [group.create_task(each) for each in self._background(tables, progress)]
                progress.say(f"faults and orders for {self._plan.seconds:.0f} s …")
                await asyncio.gather(*map(self._lane, FaultLane))
                self._callers.send_the_rest()
                bound = self._limits.termination
                progress.say(f"faults ended; settling takes {bound:.0f} s at most …")
                seconds, leftovers = await settle(tables, self._addresses.admin, self._callers, bound)
                await asyncio.sleep(_LATE_CALLS)
                for task in background:
                    task.cancel()
                return await self._outcome(tables, leftovers, seconds)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def _background(self, tables: Tables, progress: RunProgress) -> list[Coroutine[None, None, None]]:
        return [
            self._callers.submit_all(),
            self._watch(tables),
            progress.follow(self._callers, self.judge, self._counts),
        ]

    async def _lane(self, lane: FaultLane) -> None:
        await run_lane(self._plan, lane, self._injector.inject, self._counts, self._callers.send_one_more)

    async def _watch(self, tables: Tables) -> None:
        """Examine all tasks until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.judge.look(tables)
            await asyncio.sleep(max(_LOOK_EVERY, _PAUSE * (loop.time() - began)))

    async def _outcome(self, tables: Tables, leftovers: Sequence[str], seconds: float) -> Outcome:
        looks = 0
        while not await self.judge.look(tables) and looks < _MOST_LOOKS_AT_THE_END:
            looks += 1
            await asyncio.sleep(_LOOK_EVERY)
        await self.judge.read_notices(self._addresses.service_bus_connection)
        return Outcome(
            accepted=self._callers.accepted,
            rejections=self._callers.rejections,
            cancelled=self._callers.cancelled,
            leftovers=[*leftovers, *self._remotes.faults],
            rejected=await tables.rejected(),
            fault_counts=self._counts,
            seconds=seconds,
        )
