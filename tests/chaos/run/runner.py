"""The course of a run: everything in the plan happens, the platform settles, the evidence is collected."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import assert_never

from tests.chaos.app.journal import read_journals
from tests.chaos.evidence.clocks import ToldTimes
from tests.chaos.evidence.definitions import TaskDefinitions
from tests.chaos.evidence.dispatches import asked
from tests.chaos.evidence.evidence import Evidence, Settling
from tests.chaos.evidence.notices import read_notices
from tests.chaos.evidence.observer import Observer
from tests.chaos.evidence.settling import settle
from tests.chaos.evidence.tables import Tables
from tests.chaos.hosts.host import callers_urls
from tests.chaos.injection.broker_faults import BrokerFaults
from tests.chaos.injection.clocks import WrongClocks
from tests.chaos.injection.lanes import Injector, run_lane
from tests.chaos.injection.outages import Outages
from tests.chaos.injection.partitions import Partitions
from tests.chaos.plan.faults import FaultLane
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan
from tests.chaos.run.environment import RunEnvironment
from tests.chaos.run.progress import RunProgress
from tests.chaos.traffic.operators import Operators
from tests.chaos.traffic.submitters import Callers, PoisonSender

#: Seconds, after everything has settled, in which requests in flight arrive.
_LATE_CALLS = 8.0
#: The observer leaves out what it can't read; evidence is read until it is there.
_READ_AGAIN = 5


class Run:
    """Carries out a plan in an environment."""

    def __init__(self, plan: Plan, limits: Limits, environment: RunEnvironment, tables: Tables) -> None:
        addresses = environment.platform.addresses
        self._plan = plan
        self._limits = limits
        self._environment = environment
        self._tables = tables
        self._bound = limits.termination(drawn=plan.has_drawn)
        hosts, chance = environment.hosts, Random(plan.seed)  # noqa: S311 - not for security
        self._callers = Callers(callers_urls(hosts), plan, environment.fault_counts)
        self._poison = PoisonSender(addresses.service_bus_connection, plan, environment.fault_counts)
        at = [host.platform.addresses for host in hosts]
        self._operators = Operators(at, plan.scenarios, environment.remotes.call_faults)
        self._observer = Observer(tables, TaskDefinitions(plan.registrations))
        self._outages = Outages(environment.hosts, environment.deployed)
        self._partitions = Partitions(environment.hosts)
        self._clocks = WrongClocks(environment.hosts, limits.clock, chance)
        by_hub = environment.layout.submit_to == "hub"
        self._broker_faults = BrokerFaults(addresses.admin, chance, by_hub=by_hub)

    async def carry_out(self, progress: RunProgress) -> Evidence:
        """Carry out the plan. Raises `PlatformError` when a part fails without an injected fault."""
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(each) for each in self._background(progress)]
                progress.say(f"faults and orders for {self._plan.seconds:.0f} s …")
                await asyncio.gather(*(self._lane(lane) for lane in self._plan.lanes))
                await self._broker_faults.end_all()
                self._callers.send_the_rest()
                progress.say(f"faults ended; settling takes {self._bound:.0f} s at most …")
                settling = await self._settle()
                await asyncio.sleep(_LATE_CALLS)
                for task in background:
                    task.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        async with Tables.at(self._environment.tables_connection, retries=_READ_AGAIN) as tables:
            return await self._evidence(settling, tables)

    def _background(self, progress: RunProgress) -> list[Coroutine[None, None, None]]:
        return [
            self._callers.submit_all(),
            self._poison.send_all(),
            self._operators.act_on_all(),
            self._observer.watch(),
            progress.follow(
                self._callers.accepted, self._observer.observations, self._environment.fault_counts
            ),
        ]

    async def _lane(self, lane: FaultLane) -> None:
        counts, more = self._environment.fault_counts, self._callers.send_one_more
        await run_lane(self._plan, lane, self._injector(lane), counts, more)

    def _injector(self, lane: FaultLane) -> Injector:
        match lane:
            case FaultLane.OUTAGES:
                return self._outages.inject
            case FaultLane.BROKER:
                return self._broker_faults.inject
            case FaultLane.PAYMENTS:
                return self._environment.remotes.call_faults.inject
            case FaultLane.PARTITIONS:
                return self._partitions.inject
            case FaultLane.CLOCKS:
                return self._clocks.inject
            case _:
                assert_never(lane)

    async def _settle(self) -> Settling:
        admin = self._environment.platform.addresses.admin
        return await settle(self._tables, admin, self._plan.scenarios, self._pending, self._bound)

    def _pending(self) -> list[str]:
        """Describe what callers and operators still have to do."""
        return [
            *(f"order {order} is not accepted" for order in self._callers.waiting),
            *(f"message {message} is not sent" for message in self._poison.waiting),
            *(f"order {order} still needs an operator" for order in self._operators.waiting),
        ]

    async def _evidence(self, settling: Settling, tables: Tables) -> Evidence:
        environment, remotes = self._environment, self._environment.remotes
        calls = list(remotes.ledger.calls)  # before the rows: what has not settled goes on meanwhile
        return Evidence(
            plan=self._plan,
            limits=self._limits,
            settling=settling,
            fault_counts=environment.fault_counts.by_fault,
            told=ToldTimes([host.clock.settings for host in environment.hosts]),
            accepted=self._callers.accepted,
            refused=self._callers.refused,
            cancelled=self._callers.cancelled,
            both_won=self._operators.both_won,
            tasks=await tables.tasks(),
            rejected=await tables.rejected(),
            observations=self._observer.observations,
            asked=asked(read_journals(host.journal for host in environment.hosts)),
            calls=calls,
            notices=await read_notices(environment.platform.addresses.service_bus_connection),
            alerts=[*remotes.alerts.alerts, *await tables.waiting_alerts()],
        )
