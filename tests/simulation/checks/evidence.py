"""What is known of a run when it has ended: no statement of the application about itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.evidence.rows import TaskRows
from tests.chaos.invariants.violations import Violation
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.journal import Version
from tests.simulation.remotes.ledger import RemoteLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEvidence:
    """Tasks are by id."""

    tasks: Mapping[str, TaskRows]
    births: Mapping[str, str]
    journal: Mapping[str, Sequence[Version]]
    seen: Sequence[Violation]
    steps: StepsByName
    ledger: RemoteLedger
    #: Agents that only read, and so have no effect.
    only_read: Collection[str]
    notices: Sequence[Mapping[str, Any]]
    alerts: Sequence[Mapping[str, Any]]
    rejected: Sequence[Mapping[str, Any]]
    accepted: Collection[str]
    refused: Mapping[str, object]
    cancelled: Collection[str]
    leftovers: Sequence[str]
    most_recoveries: int
    unhandled: Sequence[str]


def read_body(body: bytes) -> Mapping[str, Any]:
    """Read a message."""
    read: Mapping[str, Any] = json.loads(body)
    return read
