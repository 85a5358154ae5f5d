"""The evidence of a run: everything against which the invariants are checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from tests.chaos.evidence.alerts import PostedAlert
from tests.chaos.evidence.clocks import ToldTimes
from tests.chaos.evidence.definitions import TaskDefinitions
from tests.chaos.evidence.dispatches import Dispatch, Request, dispatches, vouched
from tests.chaos.evidence.notices import Notice
from tests.chaos.evidence.observer import Observations
from tests.chaos.evidence.rows import TaskRows
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan
from tests.chaos.remotes.ledger import ServiceCall
from tests.simulation.checks.definitions import StepsByName


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How the platform settled after the last fault. `leftovers` describes what did not."""

    seconds: float
    leftovers: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One run's evidence: rows, messages and calls, no other statement of the application about itself."""

    plan: Plan
    limits: Limits
    settling: Settling
    fault_counts: Mapping[InjectedFault, int]
    told: ToldTimes
    accepted: Mapping[str, datetime]
    refused: Mapping[str, str]
    cancelled: Collection[str]
    both_won: Sequence[str]
    tasks: Mapping[str, TaskRows]
    rejected: Sequence[Mapping[str, Any]]
    observations: Observations
    #: What Agents behind queues were asked for, by task.
    asked: Mapping[str, Collection[Request]]
    calls: Sequence[ServiceCall]
    notices: Sequence[Notice]
    alerts: Sequence[PostedAlert]

    @cached_property
    def steps(self) -> StepsByName:
        """The steps of all workflows, by name."""
        return StepsByName(self.plan.registrations)

    @cached_property
    def definitions(self) -> TaskDefinitions:
        """The definitions of tasks."""
        return TaskDefinitions(self.plan.registrations)

    @cached_property
    def _by_order(self) -> Mapping[str, list[ServiceCall]]:
        calls = defaultdict[str, list[ServiceCall]](list)
        for call in self.calls:
            calls[call.order].append(call)
        return calls

    def calls_of(self, order: str) -> list[ServiceCall]:
        """Return the calls to the remote services for one order."""
        return self._by_order.get(order, [])

    def dispatches_of(self, order: str) -> set[Dispatch]:
        """Return the dispatches of one order that are on record, or for which its record vouches."""
        rows = self.tasks[order]
        return {*vouched(self.asked.get(order, ()), rows, self.told), *dispatches(rows)}
