"""The roles of applications: one application has all roles, or each role is an application of its own.

The composition root and the templates grant a role only the functions, tables and queues listed here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from functions.messaging.queue_names import (
    AGENT_REPLIES_QUEUE,
    OPERATOR_ALERTS_QUEUE,
    SCHEDULER_REQUESTS_QUEUE,
    SUBMISSIONS_QUEUE,
)


class AppRole(StrEnum):
    """A role of an application."""

    #: Takes orders, and answers their callers.
    FRONT = "front"
    #: Records orders, runs their steps, and calls the services of the Agents that are activities.
    SCHEDULER = "scheduler"
    #: Serves the Agents behind queues. It reads no task, only requests.
    AGENTS = "agents"
    #: Recovers overdue tasks, alerts operators, and carries out their actions.
    SUPERVISOR = "supervisor"


class QueueKind(StrEnum):
    """The purpose of a queue."""

    SUBMISSIONS = SUBMISSIONS_QUEUE
    SCHEDULER_REQUESTS = SCHEDULER_REQUESTS_QUEUE
    AGENT_REQUESTS = "agent-requests"
    AGENT_REPLIES = AGENT_REPLIES_QUEUE
    OPERATOR_ALERTS = OPERATOR_ALERTS_QUEUE
    NOTICES = "notices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The functions (`*` for any name), tables, queues, Durable client and event hub that roles may use."""

    functions: frozenset[str]
    tables: frozenset[str]
    receives: frozenset[QueueKind]
    sends: frozenset[QueueKind]
    has_durable_client: bool = False
    reads_hub: bool = False

    def sends_to(self, queue: str) -> bool:
        """Return whether messages may be sent to a queue."""
        return kind_of(queue) in self.sends

    def receives_from(self, queue: str) -> bool:
        """Return whether messages of a queue may be received or peeked."""
        return kind_of(queue) in self.receives


_EVERY_QUEUE = frozenset(QueueKind)
_STATE_TABLES = frozenset({"Tasks", "Rejected"})
#: The tables of the Agents behind queues. With an application for each role, they have their own account.
AGENT_TABLES = ("AgentRequests",)

PERMISSIONS: Mapping[AppRole, Permissions] = {
    AppRole.FRONT: Permissions(
        functions=frozenset({"health", "api", "docs", "openapi", "services"}),
        tables=frozenset({"Tasks"}),
        receives=frozenset(),
        # A cancel may end a task at once. The front announces this end.
        sends=_EVERY_QUEUE - {QueueKind.AGENT_REQUESTS, QueueKind.AGENT_REPLIES},
    ),
    AppRole.SCHEDULER: Permissions(
        functions=frozenset(
            {"submission", "ingestion", "scheduler", "run_agents", "scheduler_requests", "agent_replies"}
            | {"purge"}
        ),
        tables=_STATE_TABLES,
        receives=frozenset({QueueKind.SUBMISSIONS, QueueKind.SCHEDULER_REQUESTS, QueueKind.AGENT_REPLIES}),
        # An order that is tried again later is sent to its queue again.
        sends=_EVERY_QUEUE - {QueueKind.AGENT_REPLIES},
        has_durable_client=True,
        reads_hub=True,
    ),
    AppRole.AGENTS: Permissions(
        functions=frozenset({"agent_*"}),
        tables=frozenset(AGENT_TABLES),
        receives=frozenset({QueueKind.AGENT_REQUESTS}),
        sends=frozenset({QueueKind.AGENT_REPLIES}),
    ),
    AppRole.SUPERVISOR: Permissions(
        functions=frozenset(
            {"supervisor", "full_sweep", "intake", "queue_ages", "alert_summary", "old_rows"}
            | {"operator_alert", "dead_letter_*", "operations", "console_page", "console_files"}
            | {"docs", "openapi"}
        ),
        tables=_STATE_TABLES | {*AGENT_TABLES},
        # Includes each queue's dead letters. Operators send rejected messages to their queues again.
        receives=_EVERY_QUEUE,
        sends=_EVERY_QUEUE,
    ),
}


def permissions_of(roles: Collection[AppRole]) -> Permissions:
    """Return the union of several roles."""
    all_of = [PERMISSIONS[role] for role in roles]
    return Permissions(
        functions=frozenset().union(*(each.functions for each in all_of)),
        tables=frozenset().union(*(each.tables for each in all_of)),
        receives=frozenset().union(*(each.receives for each in all_of)),
        sends=frozenset().union(*(each.sends for each in all_of)),
        has_durable_client=any(each.has_durable_client for each in all_of),
        reads_hub=any(each.reads_hub for each in all_of),
    )


def kind_of(queue: str) -> QueueKind:
    """Return the purpose of a queue by its name."""
    if queue.startswith("agent-") and queue.endswith("-requests"):
        return QueueKind.AGENT_REQUESTS
    return QueueKind(queue) if queue in set(QueueKind) else QueueKind.NOTICES
