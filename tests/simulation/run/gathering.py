"""Gathers the evidence of a run: watches while it takes place, and reads what is there when it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functions.messages.queues import dead_letter_queue
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE
from tests.simulation.checks.alerts import posted
from tests.simulation.checks.calls import OrderOfCalls
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.evidence import Evidence, read_body
from tests.simulation.checks.journal import Journal
from tests.simulation.drawn.callers import Callers
from tests.simulation.faults.operators import Operators
from tests.simulation.run.platform import NOTICES, Platform
from tests.simulation.run.rows import births, rows_of_table, task_rows, versions


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
