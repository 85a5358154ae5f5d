"""What is left of a run: everything that the invariants are checked against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.chaos.alerts import Alert
from tests.chaos.faults import FaultKind
from tests.chaos.limits import Limits
from tests.chaos.notices import Notice
from tests.chaos.observer import Sightings
from tests.chaos.outages import Interval
from tests.chaos.payments.ledger import Call
from tests.chaos.plan import Plan
from tests.chaos.rows import TaskRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How the platform came to rest when nothing disturbed it any more. `leftovers` is what did not."""

    seconds: float
    leftovers: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run's evidence. Nothing in it was told by the application about itself, but rows and messages."""

    plan: Plan
    limits: Limits
    settling: Settling
    fired: Mapping[FaultKind, int]
    host_pauses: Sequence[Interval]
    accepted: Mapping[str, datetime]
    refused: Mapping[str, str]
    both_won: Sequence[str]
    tasks: Mapping[str, TaskRows]
    rejected: Sequence[Mapping[str, Any]]
    sightings: Sightings
    calls: Sequence[Call]
    notices: Sequence[Notice]
    alerts: Sequence[Alert]

    def calls_of(self, order: str) -> list[Call]:
        """Give the calls to the payment service for one order."""
        return [call for call in self.calls if call.order == order]
