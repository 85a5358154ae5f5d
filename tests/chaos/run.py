"""One run: everything planned happens to the platform, it is left to settle, the evidence is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import assert_never

from tests.chaos.broker_faults import BrokerFaults
from tests.chaos.callers import Callers
from tests.chaos.evidence import Evidence, Settling
from tests.chaos.faults import Lane
from tests.chaos.lanes import Happens, run_lane
from tests.chaos.limits import Limits
from tests.chaos.notices import read_notices
from tests.chaos.observer import Observer
from tests.chaos.operators import Operators
from tests.chaos.outages import Outages
from tests.chaos.plan import Plan
from tests.chaos.poison import PoisonSender
from tests.chaos.progress import Progress
from tests.chaos.settling import settle
from tests.chaos.tables import Tables
from tests.chaos.world import World

#: Seconds, after everything has settled, in which calls that are still on their way arrive.
_LATE_CALLS = 8.0


class Run:
    """A plan that is carried out in a world."""

    def __init__(self, plan: Plan, limits: Limits, world: World, tables: Tables) -> None:
        addresses = world.platform.addresses
        self._plan = plan
        self._limits = limits
        self._world = world
        self._tables = tables
        self._callers = Callers(addresses.host, plan, world.tally)
        self._poison = PoisonSender(addresses.service_bus_connection, plan, world.tally)
        self._operators = Operators(addresses.host, plan.fates, world.remotes.troubles)
        self._observer = Observer(tables)
        self._outages = Outages(world.platform, world.proxy)
        self._broker_faults = BrokerFaults(addresses.admin, Random(plan.seed))  # noqa: S311 - chance

    async def carry_out(self, progress: Progress) -> Evidence:
        """Let everything happen. Raises `PlatformError` when a part fails that nobody harmed."""
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(each) for each in self._background(progress)]
                progress.say(f"faults and orders for {self._plan.seconds:.0f} s …")
                await asyncio.gather(*(self._lane(lane) for lane in Lane))
                await self._broker_faults.heal()
                self._callers.hurry()
                progress.say(
                    f"healed; waiting for everything to settle, {self._limits.termination:.0f} s at most …"
                )
                settling = await self._settle()
                await asyncio.sleep(_LATE_CALLS)
                for task in background:
                    task.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return await self._evidence(settling)

    def _background(self, progress: Progress) -> list[Coroutine[None, None, None]]:
        return [
            self._callers.submit_all(),
            self._poison.send_all(),
            self._operators.look_after(),
            self._observer.watch(),
            progress.follow(self._callers.accepted, self._observer.sightings, self._world.tally),
        ]

    async def _lane(self, lane: Lane) -> None:
        await run_lane(self._plan, lane, self._happens(lane), self._world.tally)

    def _happens(self, lane: Lane) -> Happens:
        match lane:
            case Lane.OUTAGES:
                return self._outages.happen
            case Lane.BROKER:
                return self._broker_faults.happen
            case Lane.PAYMENTS:
                return self._world.remotes.troubles.happen
            case _:
                assert_never(lane)

    async def _settle(self) -> Settling:
        admin = self._world.platform.addresses.admin
        return await settle(self._tables, admin, self._plan.fates, self._pending, self._limits.termination)

    def _pending(self) -> list[str]:
        """Name what callers and operators still have to do."""
        return [
            *(f"order {order} is not accepted" for order in self._callers.waiting),
            *(f"message {message} is not sent" for message in self._poison.waiting),
            *(f"order {order} is still to be looked after" for order in self._operators.waiting),
        ]

    async def _evidence(self, settling: Settling) -> Evidence:
        world, remotes = self._world, self._world.remotes
        return Evidence(
            plan=self._plan,
            limits=self._limits,
            settling=settling,
            fired=world.tally.counts,
            host_pauses=self._outages.host_pauses,
            accepted=self._callers.accepted,
            refused=self._callers.refused,
            both_won=self._operators.both_won,
            tasks=await self._tables.tasks(),
            rejected=await self._tables.rejected(),
            sightings=self._observer.sightings,
            calls=remotes.ledger.calls,
            notices=await read_notices(world.platform.addresses.service_bus_connection),
            alerts=remotes.alerts.alerts,
        )
