"""The evidence of a run: everything against which the invariants are checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.chaos.evidence.alerts import PostedAlert
from tests.chaos.evidence.notices import Notice
from tests.chaos.evidence.observer import Observations
from tests.chaos.evidence.rows import TaskRows
from tests.chaos.injection.outages import Interval
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.plan.limits import Limits
from tests.chaos.plan.schedule import Plan
from tests.chaos.remotes.ledger import PaymentCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How the platform settled after the last fault. `leftovers` describes what did not."""

    seconds: float
    leftovers: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run's evidence: rows, messages and calls, no other statement of the application about itself."""

    plan: Plan
    limits: Limits
    settling: Settling
    fault_counts: Mapping[InjectedFault, int]
    host_pauses: Sequence[Interval]
    accepted: Mapping[str, datetime]
    refused: Mapping[str, str]
    cancelled: Collection[str]
    both_won: Sequence[str]
    tasks: Mapping[str, TaskRows]
    #: How many tasks lie in each account of the state store.
    in_accounts: Sequence[int]
    rejected: Sequence[Mapping[str, Any]]
    observations: Observations
    calls: Sequence[PaymentCall]
    notices: Sequence[Notice]
    alerts: Sequence[PostedAlert]

    def calls_of(self, order: str) -> list[PaymentCall]:
        """Return the calls to the payment service for one order."""
        return [call for call in self.calls if call.order == order]
