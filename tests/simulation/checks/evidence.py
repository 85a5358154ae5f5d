"""What is known of a run when it has ended: no statement of the application about itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.checks.alerts import PostedAlert
from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.journal import StepChange, Version
from tests.simulation.checks.rows import TaskRows
from tests.simulation.checks.violations import Violation
from tests.simulation.remotes.ledger import RemoteLedger


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Tasks are by id. Only a simulated run has the fields with defaults; chaos leaves them empty."""

    tasks: Mapping[str, TaskRows]
    births: Mapping[str, str]
    journal: Mapping[str, Sequence[Version]]
    steps: StepsByName
    ledger: RemoteLedger
    #: Agents that only read, and so have no effect.
    only_read: Collection[str]
    notices: Sequence[Mapping[str, Any]]
    alerts: Sequence[PostedAlert]
    #: Alerts that died on their queue.
    dead_alerts: Sequence[Mapping[str, Any]]
    rejected: Sequence[Mapping[str, Any]]
    accepted: Collection[str]
    refused: Mapping[str, object]
    cancelled: Collection[str]
    leftovers: Sequence[str]
    most_recoveries: int
    #: The version of its workflow that each task has.
    versions: Mapping[str, int] = field(default_factory=dict)
    step_changes: Mapping[str, Sequence[StepChange]] = field(default_factory=dict)
    #: Tasks that are steps of others, by task, birth and step of those.
    children: Mapping[str, str] = field(default_factory=dict)
    seen: Sequence[Violation] = ()
    #: All messages that died, with their queues.
    buried: Sequence[tuple[str, bytes]] = ()
    #: Steps of tasks whose results operators gave.
    given: Collection[tuple[str, str]] = ()
    #: Calls of each Agent that were in flight at once, and how many may be.
    most_in_flight: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    unhandled: Sequence[str] = ()


def read_body(body: bytes) -> Mapping[str, Any]:
    """Read a message."""
    read: Mapping[str, Any] = json.loads(body)
    return read
