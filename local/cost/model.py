"""What a million orders use of each meter: counted, or by a formula where it can't be counted here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from local.cost.counting import CountedOrder

#: An instance's memory in GB, as the templates choose it.
_MEMORY = 2
#: MB of log for each execution: a request's row, and a line when it begins and when it ends, of 1 KB each.
_LOG_MEGABYTES = 0.003


@dataclass(frozen=True, slots=True)
class Meter:
    """One meter of Azure's bill: its key in the list of prices, and how its figure is known."""

    key: str
    name: str
    known: str


GIGABYTE_SECONDS = Meter(
    "gigabyte_seconds",
    "GB-seconds",
    "lower bound: 2 GB times the host's CPU time; waiting is billed, too",
)
EXECUTIONS = Meter("executions", "executions", "counted")
TRANSACTIONS = Meter("table_transactions", "state store: transactions", "counted, one order at a time")
MESSAGES = Meter("messages", "Service Bus: operations", "counted messages times 3")
HUB_REQUESTS = Meter(
    "hub_requests",
    "task hub in Azure Storage: requests",
    "3 (1 + 2 activities) + 2 episodes + 2, without polling",
)
ACTIONS = Meter("actions", "or Durable Task Scheduler: actions", "1 + 2 activities")
LOGS = Meter("log_gigabytes", "telemetry, MB", "upper bound: 3 KB times executions; the host samples")
METERS = (GIGABYTE_SECONDS, EXECUTIONS, TRANSACTIONS, MESSAGES, HUB_REQUESTS, ACTIONS, LOGS)

type Used = Mapping[Meter, float]


def of_ours(order: CountedOrder) -> Used:
    """Return the use of one order."""
    return {
        GIGABYTE_SECONDS: _MEMORY * order.cpu,
        EXECUTIONS: order.executions,
        TRANSACTIONS: order.transactions,
        MESSAGES: 3 * order.messages,
        **_hub(order.activities, order.episodes),
        LOGS: _LOG_MEGABYTES * order.executions,
    }


def of_plain(steps: int, ours: CountedOrder) -> Used:
    """Return the use of the same order as a plain Durable Functions app.

    That is a request, and an orchestrator with an activity for each step: no queue of submissions, no record
    beside the history, no Supervisor, no undo. Its compute was not measured; it is ours at the most.
    """
    episodes = steps + 1
    executions = 1 + episodes + steps
    return {
        GIGABYTE_SECONDS: _MEMORY * ours.cpu,
        EXECUTIONS: executions,
        TRANSACTIONS: 0,
        MESSAGES: 0,
        **_hub(steps, episodes),
        LOGS: _LOG_MEGABYTES * executions,
    }


def _hub(activities: float, episodes: float) -> Used:
    """Return the figures of both back ends of Durable Functions; a deployment has one of them."""
    # The Durable Task Scheduler dispatches the start, each activity and its result.
    actions = 1 + 2 * activities
    return {HUB_REQUESTS: 3 * actions + 2 * episodes + 2, ACTIONS: actions}
