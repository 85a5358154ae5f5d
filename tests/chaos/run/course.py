"""The course of a run: everything in the plan happens, the platform settles, the evidence is read."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine, Sequence

from functions.workflows.registry import load_registrations
from tests.chaos.callers import Callers
from tests.chaos.evidence.observer import Observer
from tests.chaos.evidence.outcome import ChaosOutcome, read_notices
from tests.chaos.evidence.settling import settle
from tests.chaos.evidence.tables import Tables
from tests.chaos.injection.lanes import Injector, run_lane
from tests.chaos.plan import FaultLane, InjectedFault, Limits, Plan
from tests.chaos.run.environment import RunEnvironment
from tests.chaos.run.progress import RunProgress
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.rows import body_of

#: Seconds in which late requests arrive after everything has settled.
_LATE_CALLS = 8.0
#: Reads of the evidence are retried; those of the observer are not.
_RETRIES = 5
_ALERTS_QUEUE = "operator-alerts"


class ChaosRun:
    """Carries out a plan in an environment that runs."""

    def __init__(self, plan: Plan, limits: Limits, environment: RunEnvironment) -> None:
        self._plan = plan
        self._limits = limits
        self._addresses = environment.platform.addresses
        self._remotes = environment.remotes
        self._injector = Injector(environment.hosts)
        self._callers = Callers([each.platform.addresses.host for each in environment.hosts], plan.orders)
        self._observer = Observer()
        self._counts = Counter[InjectedFault]()

    async def carry_out(self, progress: RunProgress) -> ChaosOutcome:
        """Carry out the plan. Raises `AzureError` when the evidence can't be read."""
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
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return ChaosOutcome(
            evidence=await self._evidence(leftovers),
            plan=self._plan,
            fault_counts=self._counts,
            looks=self._observer.looks,
            settled=seconds,
        )

    def _background(self, tables: Tables, progress: RunProgress) -> list[Coroutine[None, None, None]]:
        return [
            self._callers.submit_all(),
            self._observer.watch(tables),
            progress.follow(self._callers, self._observer, self._counts),
        ]

    async def _lane(self, lane: FaultLane) -> None:
        await run_lane(self._plan, lane, self._injector.inject, self._counts, self._callers.send_one_more)

    async def _evidence(self, leftovers: Sequence[str]) -> Evidence:
        remotes, callers = self._remotes, self._callers
        async with Tables.at(self._addresses.storage_connection, retries=_RETRIES) as tables:
            tasks, births = await tables.tasks()
            rejected = await tables.rejected()
        self._observer.record(tasks)
        return Evidence(
            tasks=tasks,
            births=births,
            journal=self._observer.journal,
            steps=StepsByName(load_registrations()),
            ledger=remotes.ledger,
            only_read=remotes.readers - {call.agent for call in remotes.ledger.calls},
            notices=await read_notices(self._addresses.service_bus_connection),
            alerts=remotes.alerts,
            dead_alerts=[json.loads(body_of(row)) for row in rejected if row["Queue"] == _ALERTS_QUEUE],
            rejected=rejected,
            accepted=callers.accepted,
            refused=callers.refused,
            cancelled=callers.cancelled,
            leftovers=leftovers,
            most_recoveries=self._limits.most_recoveries,
        )
