"""What is known of a run when it has ended: no statement of the application about itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.evidence.alerts import PostedAlert
from tests.chaos.evidence.rows import TaskRows
from tests.chaos.invariants.violations import Violation
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.journal import StepChange, Version
from tests.simulation.remotes.ledger import RemoteLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEvidence:
    """Tasks are by id."""

    tasks: Mapping[str, TaskRows]
    births: Mapping[str, str]
    #: The version of its workflow that each task has.
    versions: Mapping[str, int]
    journal: Mapping[str, Sequence[Version]]
    step_changes: Mapping[str, Sequence[StepChange]]
    #: Tasks that are steps of others, by task, birth and step of those.
    children: Mapping[str, str]
    seen: Sequence[Violation]
    steps: StepsByName
    ledger: RemoteLedger
    #: Agents that only read, and so have no effect.
    only_read: Collection[str]
    notices: Sequence[Mapping[str, Any]]
    alerts: Sequence[PostedAlert]
    #: Alerts that died on their queue, and all messages that died, with their queues.
    dead_alerts: Sequence[Mapping[str, Any]]
    buried: Sequence[tuple[str, bytes]]
    rejected: Sequence[Mapping[str, Any]]
    accepted: Collection[str]
    refused: Mapping[str, object]
    #: Steps of tasks whose results operators gave.
    given: Collection[tuple[str, str]]
    cancelled: Collection[str]
    leftovers: Sequence[str]
    most_recoveries: int
    #: Calls of each Agent that were in flight at once, and how many may be.
    most_in_flight: Mapping[str, int]
    limits: Mapping[str, int]
    unhandled: Sequence[str]


def read_body(body: bytes) -> Mapping[str, Any]:
    """Read a message."""
    read: Mapping[str, Any] = json.loads(body)
    return read
