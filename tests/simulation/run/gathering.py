"""Gathers the evidence of a run: watches while it takes place, and reads what is there when it has ended."""

from __future__ import annotations

from collections.abc import Sequence

from functions.workflows.registration import Registration
from tests.simulation.checks.calls import OrderOfCalls
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.evidence import SimulatedEvidence, read_body
from tests.simulation.checks.journal import Journal
from tests.simulation.drawn.callers import Callers
from tests.simulation.run.platform import Platform
from tests.simulation.run.rows import births, rows_of_table, task_rows

NOTICES = "notices-demo"


class Gathering:
    """Begin it when the tables are there."""

    def __init__(self, platform: Platform, registrations: Sequence[Registration], robbed: set[str]) -> None:
        self._platform = platform
        self._steps = StepsByName(registrations)
        tasks = platform.tables.tables["Tasks"]
        self._journal = Journal(platform.world, tasks, robbed=robbed)
        self._journal.begin()
        self._calls = OrderOfCalls(tasks, self._steps)
        platform.services.arrived = self._calls.arrived

    def evidence(self, callers: Callers, leftovers: Sequence[str], most_recoveries: int) -> SimulatedEvidence:
        """Give the evidence."""
        platform, tables = self._platform, self._platform.tables
        return SimulatedEvidence(
            tasks=task_rows(tables),
            births=births(tables),
            journal=self._journal.tasks,
            seen=[*self._journal.torn, *self._calls.violations],
            steps=self._steps,
            ledger=platform.services.ledger,
            only_read=platform.services.readers - {call.agent for call in platform.services.ledger.calls},
            notices=[read_body(each.body) for each in platform.namespace.queues[NOTICES].messages],
            alerts=platform.services.alerts,
            rejected=list(rows_of_table(tables, "Rejected")),
            accepted=list(callers.accepted),
            refused=callers.refused,
            cancelled=callers.cancelled,
            leftovers=leftovers,
            most_recoveries=most_recoveries,
            unhandled=platform.world.loop.unhandled,
        )
